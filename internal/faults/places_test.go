//go:build linux && amd64

package faults

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/draw"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// alone gives the calling test its own mounts. They belong to its thread, which ends with the test.
func alone(t *testing.T) {
	t.Helper()
	runtime.LockOSThread() // never unlocked, so that the thread ends
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		t.Skip("file systems cannot be mounted here, which takes root: ", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Skip("mounts cannot be made private here: ", err)
	}
}

// plainly runs the scene's command without a tracer, after the shell command before.
func (s *scene) plainly(t *testing.T, dir, before string) Result {
	t.Helper()
	cmd := exec.Command("/bin/sh", append([]string{"-c", before + ` exec "$@"`, "sh"}, s.command...)...)
	cmd.Dir, cmd.Env = dir, s.environ(dir)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	guard := time.AfterFunc(2*hangAfter, func() { cmd.Process.Kill() })
	defer guard.Stop()
	err := cmd.Run()
	r := Result{Stdout: out.String(), Stderr: errs.String(), Status: cmd.ProcessState.ExitCode()}
	if ended := (*exec.ExitError)(nil); err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		r.Status = -int(ws.Signal())
	}
	return r
}

// ends judges a run that lacked a resource, and returns whether it succeeded.
func (s *scene) ends(t *testing.T, dir, what string, r Result) bool {
	t.Helper()
	for _, w := range s.judge(t, dir, Fault{}, r) {
		t.Errorf("%s, %s: %s\n  status %d, stderr: %.800s", s.name, what, w, r.Status, r.Stderr)
	}
	return r.Status == 0
}

// TestFullDisk runs both commands with room for n pages or n files, and with limits on file size, for increasing n
// until they succeed. Until then the old files must stay complete. With RLX_FAULTS=places it tries every n, otherwise a
// few.
func TestFullDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the commands")
	}
	all := os.Getenv("RLX_FAULTS") == "places" || os.Getenv("RLX_FAULTS") == "all"
	page := os.Getpagesize()
	for _, s := range scenes(t) {
		dir := t.TempDir()
		var inputs, pages, largest int
		for _, b := range s.inputs {
			inputs, pages = inputs+1, pages+(len(b)+page-1)/page
		}
		for _, b := range s.outputs {
			inputs, pages, largest = inputs+1, pages+1, max(largest, (len(b)+511)/512)
		}
		const folders = 3 // including the root
		for _, kind := range []struct {
			name    string
			most    int // must succeed at this n at the latest
			options func(n int) string
			limit   func(n int) string
		}{
			{"pages", 2*pages + largest*512/page + 64,
				func(n int) string { return fmt.Sprintf("size=%d", (pages+n)*page) }, nil},
			{"files", 64, func(n int) string { return fmt.Sprintf("nr_inodes=%d", inputs+folders+n) }, nil},
			// in blocks of 512 bytes
			{"pages of one file", largest/8 + 1024, func(int) string { return "" },
				func(n int) string { return fmt.Sprintf("ulimit -f %d;", 8*n) }},
		} {
			t.Run(s.name+"/"+kind.name, func(t *testing.T) {
				alone(t)
				tried, first := 0, -1
				for n := 0; n <= kind.most && first < 0; n++ {
					if !all && n > 2 && n < kind.most && n%(1+kind.most/3) != 0 {
						continue
					}
					if err := unix.Mount("rlx", dir, "tmpfs", 0, kind.options(n)); err != nil {
						t.Fatal(err)
					}
					s.fill(t, dir)
					before := ""
					if kind.limit != nil {
						before = kind.limit(n)
					}
					if r := s.plainly(t, dir, before); s.ends(t, dir, fmt.Sprintf("%d %s", n, kind.name), r) {
						first = n
					}
					tried++
					if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
						t.Fatal(err)
					}
				}
				if first < 0 {
					t.Errorf("it does not succeed with %d %s either", kind.most, kind.name)
				}
				t.Logf("%d runs; it succeeds with room for %d %s", tried, first, kind.name)
			})
		}
	}
}

// TestReadOnly runs both commands on a read-only file system.
func TestReadOnly(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the commands")
	}
	for _, s := range scenes(t) {
		t.Run(s.name, func(t *testing.T) {
			alone(t)
			dir := s.stage(t)
			if err := errors.Join(unix.Mount(dir, dir, "", unix.MS_BIND, ""),
				unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")); err != nil {
				t.Fatal(err)
			}
			defer unix.Unmount(dir, unix.MNT_DETACH)
			r := s.plainly(t, dir, "")
			if s.ends(t, dir, "read-only", r) || !strings.Contains(r.Stderr, "read-only file system") {
				t.Errorf("status %d: %s", r.Status, r.Stderr)
			}
		})
	}
}

// changed returns other contents for an input; right reports whether the command must accept them.
func changed(t *testing.T, input string, old []byte) (another []byte, right bool) {
	t.Helper()
	another = bytes.Clone(old)
	switch filepath.Ext(input) {
	case ".safetensors":
		another[len(another)-4] ^= 1 // the lowest bit of the last weight
		return another, true
	case ".png":
		m, err := png.Decode(bytes.NewReader(old))
		if err != nil {
			t.Fatal(err)
		}
		dark := image.NewRGBA(m.Bounds())
		draw.Draw(dark, dark.Rect, m, dark.Rect.Min, draw.Src)
		for i := range dark.Pix {
			if i%4 != 3 {
				dark.Pix[i] /= 2
			}
		}
		var b bytes.Buffer
		if err := png.Encode(&b, dark); err != nil {
			t.Fatal(err)
		}
		return b.Bytes(), true
	}
	another[len(another)-1] ^= 1 // an artifact with a wrong digest
	return another, false
}

// versions lists changes to an input while it is read.
var versions = []struct {
	name string
	do   func(path string, another []byte) error
}{
	{"replaced", func(path string, another []byte) error {
		return errors.Join(os.WriteFile(path+".new", another, 0o644), os.Rename(path+".new", path))
	}},
	{"cut short", func(path string, _ []byte) error {
		st, err := os.Stat(path)
		if err != nil {
			return err
		}
		return os.Truncate(path, st.Size()/2)
	}},
	{"overwritten", func(path string, another []byte) error { return os.WriteFile(path, another, 0o644) }},
	{"removed", func(path string, _ []byte) error { return os.Remove(path) }},
}

// TestInputsChange changes an input of both commands at each of their reads: it replaces or removes the file, shortens
// it, or changes its contents. The outcome must be that of the old or the new input, or an error. With
// RLX_FAULTS=inputs it tries every read, otherwise a few.
func TestInputsChange(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the commands")
	}
	all := os.Getenv("RLX_FAULTS") == "inputs" || os.Getenv("RLX_FAULTS") == "all"
	reads, _ := FindClass("read")
	for _, s := range scenes(t) {
		calls := s.try(t, Fault{Class: reads}).Calls
		for input, old := range s.inputs {
			other := *s
			another, ok := changed(t, input, old)
			if ok {
				other.inputs, other.outputs = map[string][]byte{}, map[string][]byte{}
				for n, b := range s.inputs {
					other.inputs[n] = b
				}
				other.inputs[input] = another
				for n := range s.outputs {
					other.outputs[n] = nil
				}
				other.settle(t)
			}
			for _, v := range versions {
				tried, ended := 0, map[int]int{}
				for n := 1; n <= calls; n++ {
					if !all && n%(1+calls/4) != 2 {
						continue
					}
					dir := s.stage(t)
					r := s.run(t, dir, Fault{Class: reads, N: n, Do: func() {
						if err := v.do(filepath.Join(dir, input), another); err != nil {
							t.Error(err)
						}
					}})
					tried++
					ended[r.Status]++
					want := s
					if r.Status == 0 && ok && other.made(dir) {
						want = &other
					}
					for _, w := range want.judge(t, dir, Fault{Class: reads}, r) {
						t.Errorf("%s: %s %s at read %d (%s): %s\n  status %d, stderr: %.800s", s.name, input, v.name, n,
							r.Hit, w, r.Status, r.Stderr)
					}
					os.RemoveAll(dir)
				}
				t.Logf("%s: %s %s: %d runs, by status: %v", s.name, input, v.name, tried, ended)
			}
		}
	}
}

// made reports whether a run has written the scene's outputs.
func (s *scene) made(dir string) bool {
	for n, want := range s.outputs {
		if b, err := os.ReadFile(filepath.Join(dir, n)); err != nil || !bytes.Equal(b, want) {
			return false
		}
	}
	return true
}
