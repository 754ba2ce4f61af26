//go:build linux && amd64

package faults

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/internal/synth"
	"github.com/rlx-go/rlx/internal/testbin"
)

func TestMain(m *testing.M) {
	Main()
	status := m.Run()
	os.RemoveAll(binaries)
	os.Exit(status)
}

// The commands are built once.
var (
	binaries string
	both     []*scene
)

// scene is a small run of one of the commands. Each run gets a new folder.
type scene struct {
	name    string
	command []string          // path first
	inputs  map[string][]byte // files that exist before the run
	// files that the command writes, with their contents after a successful run; older versions exist before
	outputs map[string][]byte
}

var older = []byte("an older file")

// stage creates a folder for a scene.
func (s *scene) stage(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s.fill(t, dir)
	return dir
}

// fill writes the scene's files and folders to dir.
func (s *scene) fill(t *testing.T, dir string) {
	t.Helper()
	files := map[string][]byte{}
	for n, b := range s.inputs {
		files[n] = b
	}
	for n := range s.outputs {
		files[n] = older
	}
	for n, b := range files {
		if err := os.WriteFile(filepath.Join(dir, n), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []string{"tmp", "run"} {
		if err := os.Mkdir(filepath.Join(dir, n), 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *scene) environ(dir string) []string {
	return []string{"PATH=/usr/bin:/bin", "HOME=" + dir, "TMPDIR=" + filepath.Join(dir, "tmp"),
		"XDG_RUNTIME_DIR=" + filepath.Join(dir, "run")}
}

func (s *scene) run(t *testing.T, dir string, f Fault) Result {
	t.Helper()
	r, err := Run(Command{s.command, dir, s.environ(dir)}, f)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		t.Skip("ptrace is not permitted here: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// left lists the files that a run has added to its folder. It leaves out the folder for sockets, which the next run
// uses again, and the record of a verified artifact, which is made only if the machine was so busy that the artifact
// was two seconds old.
func (s *scene) left(t *testing.T, dir string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, p)
		_, in := s.inputs[name]
		_, made := s.outputs[name]
		if err == nil && !in && !made && !slices.Contains([]string{".", "tmp", "run"}, name) &&
			!socketFolder.MatchString(name) && !verified.MatchString(name) {
			out = append(out, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

var socketFolder = regexp.MustCompile(`^(tmp|run)/rlx(-[0-9]+)?$`)

var verified = regexp.MustCompile(`^\.cache(/rlx(/verified(/[0-9a-f]{64})?)?)?$`)

var outOfMemory = regexp.MustCompile(
	`(runtime: |fatal error: ).*(out of|cannot allocate|failed to allocate|failed to reserve|cannot reserve).*`)

// documented reports whether the README lists a status. The status of a bug of ours does not count.
func documented(status int) bool {
	return status >= 0 && status <= 8 || status == 124
}

// judge returns the faults in the outcome of a run.
func (s *scene) judge(t *testing.T, dir string, f Fault, r Result) (wrong []string) {
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	// If there is no memory, the Go runtime ends the process before our code can react.
	runtimeOwn := f.Class.Fatal && r.Status == 2 && outOfMemory.MatchString(r.Stderr)
	if r.Hung {
		bad("it did not end")
	}
	if r.Orphans > 0 {
		bad("%d processes outlived it", r.Orphans)
	}
	if !f.Kill && !runtimeOwn {
		if f.Class.Harmless && r.Status != 0 {
			bad("status %d, where nothing is lost", r.Status)
		}
		if !documented(r.Status) {
			bad("status %d", r.Status)
		}
		// The same may happen to a backend. Then the host passes on its message.
		theirs := f.Class.Fatal && r.Status == 5 && outOfMemory.MatchString(r.Stderr)
		if !theirs && (strings.Contains(r.Stderr, "goroutine ") || strings.Contains(r.Stderr, "panic")) {
			bad("a stack trace")
		}
		if r.Status > 0 && r.Stderr != "" && !strings.Contains(r.Stderr, "RLX") {
			bad("an error without a code")
		}
	}
	for n, want := range s.outputs {
		b, err := os.ReadFile(filepath.Join(dir, n))
		switch {
		case err != nil:
			bad("%s is gone: %v", n, err)
		case r.Status == 0 && !bytes.Equal(b, want):
			bad("success, and %s is not right (%d bytes)", n, len(b))
		case !bytes.Equal(b, want) && !bytes.Equal(b, older):
			bad("%s is neither the old file nor the new one (%d bytes)", n, len(b))
		}
	}
	if left := s.left(t, dir); len(left) > 0 && !f.Kill && !runtimeOwn {
		bad("left behind: %v", left)
	}
	// Whatever happened, the next run must succeed and remove the files that a killed run has left.
	if f.Kill || runtimeOwn {
		if again := s.run(t, dir, Fault{Class: f.Class}); again.Status != 0 {
			bad("the next run: status %d, %s", again.Status, again.Stderr)
		}
		for n, want := range s.outputs {
			if b, _ := os.ReadFile(filepath.Join(dir, n)); !bytes.Equal(b, want) {
				bad("the next run: %s is not right (%d bytes)", n, len(b))
			}
		}
		if left := s.left(t, dir); len(left) > 0 {
			bad("left behind after the next run: %v", left)
		}
	}
	return wrong
}

// try runs a scene with one fault.
func (s *scene) try(t *testing.T, f Fault) Result {
	t.Helper()
	dir := s.stage(t)
	r := s.run(t, dir, f)
	for _, w := range s.judge(t, dir, f, r) {
		t.Errorf("%s, %s %d (%s), kill %v: %s\n  status %d, stderr: %.1500s", s.name, f.Class.Name, f.N, r.Hit, f.Kill,
			w, r.Status, r.Stderr)
	}
	os.RemoveAll(dir)
	return r
}

// scenes builds the commands and returns the scenes of both.
func scenes(t *testing.T) []*scene {
	t.Helper()
	if both != nil {
		return both
	}
	bin, err := os.MkdirTemp("", "rlx-faults")
	if err != nil {
		t.Fatal(err)
	}
	binaries = bin
	for out, pkg := range map[string]string{"rlxc": "cmd/rlxc", "rlxrun": "cmd/rlxrun",
		"rlx-backend-cpu": "plugins/cpu"} {
		if err := testbin.Build(filepath.Join(bin, out), pkg); err != nil {
			t.Fatal(err)
		}
	}
	es, err := synth.ReadManifest("../../testdata/goldens/sam_tiny/manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	tiny := filepath.Join(bin, "tiny.safetensors")
	if err := synth.Write(tiny, es, dtype.F32); err != nil {
		t.Fatal(err)
	}
	read := func(path string) []byte {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	compile := &scene{name: "rlxc", command: []string{filepath.Join(bin, "rlxc"), "tiny.safetensors", "-o", "x.rlx"},
		inputs: map[string][]byte{"tiny.safetensors": read(tiny)}, outputs: map[string][]byte{"x.rlx": nil}}
	compile.settle(t)
	run := &scene{name: "rlxrun",
		command: []string{filepath.Join(bin, "rlxrun"), "x.rlx", "--image", "in.png", "--point", "128,128", "-o",
			"mask.png", "-o", "iou=iou.npy", "-b", "cpu", "--threads", "1", "--timeout", "15s"},
		inputs:  map[string][]byte{"x.rlx": compile.outputs["x.rlx"], "in.png": read("../../demo/scene1.png")},
		outputs: map[string][]byte{"mask.png": nil, "iou.npy": nil}}
	run.settle(t)
	both = []*scene{compile, run}
	return both
}

// settle runs the scene without a fault and stores its outputs.
func (s *scene) settle(t *testing.T) {
	t.Helper()
	dir := s.stage(t)
	r := s.run(t, dir, Fault{Class: Classes[0]})
	if r.Status != 0 || r.Hung || r.Orphans > 0 {
		t.Fatalf("%s without a fault: %+v", s.name, r)
	}
	for n := range s.outputs {
		b, err := os.ReadFile(filepath.Join(dir, n))
		if err != nil || bytes.Equal(b, older) {
			t.Fatalf("%s without a fault did not write %s: %v", s.name, n, err)
		}
		s.outputs[n] = b
	}
	if left := s.left(t, dir); len(left) > 0 {
		t.Fatalf("%s without a fault leaves %v", s.name, left)
	}
}

// killed lists classes whose calls are also used to kill a process.
var killed = []string{"write", "sync", "name", "socket"}

// slow lists classes that are tried only with RLX_FAULTS: gRPC reports a failed write only when the deadline of the
// call has passed.
var slow = []string{"receive", "send"}

// TestFaults makes calls of both commands fail: one of each class, all calls with RLX_FAULTS=all, or all of one class
// if RLX_FAULTS names it. If RLX_CONFORMANCE is a number, as in CI, which derives it from the commit, it chooses the
// calls, and half of the classes.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the commands and runs them some sixty times")
	}
	which := os.Getenv("RLX_FAULTS")
	seed, err := strconv.ParseUint(os.Getenv("RLX_CONFORMANCE"), 10, 64)
	half := err == nil && which == ""
	rng := rand.New(rand.NewPCG(seed, 2))
	for _, s := range scenes(t) {
		for _, c := range Classes {
			if which == "" && slices.Contains(slow, c.Name) || which != "" && which != "all" && which != c.Name {
				continue
			}
			for _, kill := range []bool{false, true} {
				if kill && !slices.Contains(killed, c.Name) || half && rng.IntN(2) == 0 {
					continue
				}
				begin, tried := time.Now(), 0
				calls := s.try(t, Fault{Class: c}).Calls
				if which != "" {
					for n := 1; ; n++ { // the number of calls differs from run to run
						r := s.try(t, Fault{Class: c, N: n, Kill: kill})
						tried++
						if r.Hit == "" {
							break
						}
					}
				} else if calls > 0 {
					s.try(t, Fault{Class: c, N: 1 + rng.IntN(calls), Kill: kill})
					tried++
				}
				t.Logf("%s, %s, kill %v: %d calls, %d runs, %.1f s", s.name, c.Name, kill, calls, tried,
					time.Since(begin).Seconds())
			}
		}
	}
}
