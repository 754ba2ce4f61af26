package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/npy"
)

// writeArtifact writes a model of these programs, and its task where seg is one.
func writeArtifact(t testing.TB, path string, m *model) {
	t.Helper()
	a := format.Artifact{Programs: m.programs, Meta: format.Meta{Model: "test", Producer: format.Producer{Name: "test", Version: "0"}, Segment: m.segment}}
	if _, err := format.Write(t.Context(), path, a, nil); err != nil {
		t.Fatal(err)
	}
}

const copyGraph = `graph f
sym N = 1..100000
x = input : f32[N]
y = neg x : f32[N]
return y=y
`

// TestBlocked is case "blocked" of the adversary: --timeout and the first signal end a run that waits for the other end of a
// named pipe, or for standard input or output.
func TestBlocked(t *testing.T) {
	bin, err := built()
	if err != nil {
		t.Fatal(err)
	}
	files := t.TempDir()
	writeArtifact(t, filepath.Join(files, "sam.rlx"), tinyModel(t))
	writeArtifact(t, filepath.Join(files, "f.rlx"), &model{programs: []*program.Program{programOf(t, copyGraph, "cpu")}})
	if err := os.Rename(twoColours(t, 32, 16), filepath.Join(files, "in.png")); err != nil {
		t.Fatal(err)
	}
	// As text this is more than a pipe holds.
	if err := npy.WriteFile(t.Context(), filepath.Join(files, "in.npy"), tensor.New(dtype.F32, 100000)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, args string
		status     int // 0: it waits; otherwise it ends at once
	}{
		{"image", "sam.rlx --image pipe --point 1,1 -o m.png", 0},
		{"stdin", "sam.rlx --image - --point 1,1 -o m.png", 0},
		{"input", "f.rlx -i x=@pipe.npy -o y.npy", 0},
		{"output", "f.rlx -i x=1 -o pipe.npy", 0},
		{"picture", "sam.rlx --image in.png --point 1,1 -o pipe.png", 0},
		{"trace", "f.rlx -i x=1 -o y.npy --trace pipe", 0},
		{"dump", "f.rlx -i x=1 -o y.npy --dump-tensors *=dumps", 0},
		{"stdout", "f.rlx -i x=@in.npy -o y=-", 0},
		{"json", "f.rlx -i x=@in.npy -o y=- --json", 0},
		{"safetensors", "f.rlx -i x=@pipe.safetensors:x -o y.npy", 3}, // not read in order
		{"artifact", "pipe -i x=1 -o y.npy", 4},
		{"plugin", "f.rlx -i x=1 -o y.npy --plugin x=pipe -b x", 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			type end struct {
				timeout string
				signal  syscall.Signal
				status  int
				code    string
			}
			ends := []end{{"700ms", 0, 124, "RLX5202"}, {"1h", syscall.SIGTERM, 143, "RLX1002"}, {"1h", syscall.SIGINT, 130, "RLX1002"}}
			if c.status != 0 {
				ends = []end{{"1h", 0, c.status, "RLX"}}
			}
			for _, end := range ends {
				dir := t.TempDir()
				if err := errors.Join(os.CopyFS(dir, os.DirFS(files)), os.Mkdir(filepath.Join(dir, "dumps"), 0o700)); err != nil {
					t.Fatal(err)
				}
				for _, name := range []string{"pipe", "pipe.npy", "pipe.png", "pipe.safetensors", "dumps/f.00000.y.npy"} {
					if err := syscall.Mkfifo(filepath.Join(dir, name), 0o700); err != nil {
						t.Fatal(err)
					}
				}
				got, stderr := runUntil(t, dir, filepath.Join(bin, "rlxrun"), end.signal, append(strings.Fields(c.args), "--timeout", end.timeout)...)
				if got != end.status || !strings.Contains(stderr, end.code) {
					t.Errorf("--timeout %s, signal %v: status %d, want %d\n%s", end.timeout, end.signal, got, end.status, stderr)
				}
				for _, name := range []string{"m.png", "y.npy"} {
					if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
						t.Errorf("%s was written", name)
					}
				}
			}
		})
	}
}

// TestLyingCheck is case "lying_check" of the adversary: --check does not pass where a backend keeps values back, and does
// not panic where they come in another order.
func TestLyingCheck(t *testing.T) {
	bin, err := built()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	two := "graph f\nx = input : f32[2]\na = neg x : f32[2]\ny = abs a : f32[2]\nreturn y=y\n"
	writeArtifact(t, filepath.Join(dir, "two.rlx"), &model{programs: []*program.Program{programOf(t, two, "cpu")}})
	for how, want := range map[string]string{"honest": "", "none": "RLX5108", "first": "RLX5108", "last": "RLX5108", "reversed": "RLX5108", "twice": "RLX5108"} {
		for _, flag := range []string{"--check", "--dump-tensors=*=dumps"} {
			out := how + ".npy"
			cmd := exec.Command(filepath.Join(bin, "rlxrun"), "two.rlx", "-i", "x=1,2", "-o", out, flag, "--plugin", "liar="+self, "-b", "liar")
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "RLX_LIAR_DUMPS="+how)
			msg, err := cmd.CombinedOutput()
			if status := statusOf(err); (status == 0) != (want == "") || want != "" && (status != 5 || !strings.Contains(string(msg), want)) {
				t.Errorf("%s with %s: status %d, want %s\n%s", flag, how, status, want, msg)
			}
			if _, err := os.Stat(filepath.Join(dir, out)); (err == nil) != (want == "") {
				t.Errorf("%s with %s: output: %v", flag, how, err)
			}
		}
	}
}

// runUntil runs a command whose stdin and stdout are silent pipes, sends it a signal (0: none) once it has had the time to
// begin to wait, and returns its status and stderr.
func runUntil(t *testing.T, dir, path string, sig syscall.Signal, args ...string) (status int, stderr string) {
	t.Helper()
	stdin, feed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	drain, stdout, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		for _, f := range []*os.File{stdin, feed, drain, stdout} {
			f.Close()
		}
	}()
	var errs bytes.Buffer
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, stdin, stdout, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	guard := time.AfterFunc(hangGuard, func() { cmd.Process.Kill() })
	defer guard.Stop()
	if sig != 0 {
		for !catches(cmd.Process.Pid, sig) {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(300 * time.Millisecond) // earlier would be right too, only less of a test
		cmd.Process.Signal(sig)            // an error says that it has ended
	}
	return statusOf(<-ended), errs.String()
}

// catches reports whether a process has a handler for the signal, or is no more.
func catches(pid int, sig syscall.Signal) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return true
	}
	for line := range strings.Lines(string(b)) {
		var mask uint64
		if n, _ := fmt.Sscanf(line, "SigCgt: %x", &mask); n == 1 {
			return mask>>(sig-1)&1 == 1
		}
	}
	return true // a zombie has no such line
}
