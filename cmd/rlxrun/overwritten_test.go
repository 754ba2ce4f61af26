//go:build unix

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
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/npy"
)

// changes are changes to an artifact while it is in use. A change that keeps the bytes of the open file must have no
// effect.
var changes = []struct {
	name   string
	do     func(path string) error
	status int // status of the run
}{
	{"weight written", flipWeight, 4},
	{"weight written, time set back", func(path string) error {
		st, err := os.Stat(path)
		if err != nil {
			return err
		}
		return errors.Join(flipWeight(path), os.Chtimes(path, time.Time{}, st.ModTime()))
	}, 4},
	{"cut short", func(path string) error { return os.Truncate(path, 1<<20) }, 4},
	{"emptied and written again", func(path string) error {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(path, b, 0o644)
	}, 4},
	{"replaced", func(path string) error {
		return errors.Join(os.WriteFile(path+".new", []byte("another"), 0o644), os.Rename(path+".new", path))
	}, 0},
	{"removed", os.Remove, 0},
	{"made read-only", func(path string) error { return os.Chmod(path, 0o444) }, 0},
}

func flipWeight(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, st.Size()/2); err != nil {
		return err
	}
	b[0] ^= 1
	_, err = f.WriteAt(b, st.Size()/2)
	return err
}

// startOn starts rlxrun in dir on a copy of the demo model called sam.rlx.
func startOn(t *testing.T, dir string, stderr *bytes.Buffer, args string) *exec.Cmd {
	t.Helper()
	model, err := artifact()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(model)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "sam.rlx"), b, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(filepath.Dir(model), "rlxrun"), strings.Fields(args)...)
	cmd.Dir, cmd.Stderr = dir, stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	guard := time.AfterFunc(hangGuard, func() { cmd.Process.Kill() })
	t.Cleanup(func() { guard.Stop() })
	return cmd
}

// TestOverwritten checks that an artifact does not run if it is written to between verification and loading.
func TestOverwritten(t *testing.T) {
	image := tensor.New(dtype.F32, 1, 3, 256, 256)
	for _, c := range changes {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			pipe := filepath.Join(dir, "pipe.npy")
			if err := syscall.Mkfifo(pipe, 0o600); err != nil {
				t.Fatal(err)
			}
			var stderr bytes.Buffer
			cmd := startOn(t, dir, &stderr, "sam.rlx --method encode -i image=@pipe.npy -o embeddings=e.npy")
			// rlxrun reads inputs after it has verified the artifact. Opening this pipe waits until then.
			w, err := os.OpenFile(pipe, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Millisecond) // longer than a tick of a file system's clock
			if err := errors.Join(c.do(filepath.Join(dir, "sam.rlx")), npy.Write(w, image), w.Close()); err != nil {
				t.Error(err)
			}
			status := statusOf(cmd.Wait())
			if status != c.status || status != 0 && !strings.Contains(stderr.String(), "RLX4051") {
				t.Errorf("status %d, want %d: %s", status, c.status, &stderr)
			}
			if _, err := os.Stat(filepath.Join(dir, "e.npy")); (err == nil) != (c.status == 0) {
				t.Errorf("output: %v", err)
			}
		})
	}
}

// TestOverwrittenWhileMapped is the same while the backend runs from the mapped file. The change may crash the backend.
func TestOverwrittenWhileMapped(t *testing.T) {
	for _, c := range changes {
		if c.status == 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			var stderr bytes.Buffer
			cmd := startOn(t, dir, &stderr, "bench sam.rlx --method encode -n 1000000 -q")
			waitMapped(filepath.Join(dir, "sam.rlx"), cmd.Process.Pid)
			if err := c.do(filepath.Join(dir, "sam.rlx")); err != nil {
				t.Error(err)
			}
			if status := statusOf(cmd.Wait()); status != 4 || !strings.Contains(stderr.String(), "RLX4051") {
				t.Errorf("status %d: %s", status, &stderr)
			}
		})
	}
}

// waitMapped waits until a process other than host has mapped the file. Without /proc, it waits for a second.
func waitMapped(path string, host int) {
	if _, err := os.Stat("/proc/self/maps"); err != nil {
		time.Sleep(time.Second)
		return
	}
	for end := time.Now().Add(hangGuard); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		all, _ := filepath.Glob("/proc/[0-9]*/maps")
		for _, maps := range all {
			if b, _ := os.ReadFile(maps); bytes.Contains(b, []byte(path)) &&
				maps != fmt.Sprintf("/proc/%d/maps", host) {
				return
			}
		}
	}
}
