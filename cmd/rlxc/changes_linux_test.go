package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestCheckpointChanges checks that rlxc writes no artifact if the checkpoint is written to during compilation. If
// another file takes its name by a rename, rlxc compiles the old one.
func TestCheckpointChanges(t *testing.T) {
	for _, c := range []struct {
		name   string
		do     func(path string) error
		status int
	}{
		{"written", flipLast, 3},
		{"written, time set back", func(path string) error {
			st, err := os.Stat(path)
			if err != nil {
				return err
			}
			return errors.Join(flipLast(path), os.Chtimes(path, time.Time{}, st.ModTime()))
		}, 3},
		{"cut short", func(path string) error { return os.Truncate(path, 100<<10) }, 3},
		{"replaced", func(path string) error {
			return errors.Join(os.WriteFile(path+".new", nil, 0o600), os.Rename(path+".new", path))
		}, 0},
		{"removed", os.Remove, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir, artifact := testModel(t)
			pipe := filepath.Join(dir, "pipe")
			if err := syscall.Mkfifo(pipe, 0o600); err != nil {
				t.Fatal(err)
			}
			// The report is written after the graph is done and before the weights are. It does not fit the small pipe,
			// so rlxc blocks in the middle of it until the rest is read.
			r, err := os.OpenFile(pipe, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if err := errors.Join(shrink(r), r.SetReadDeadline(time.Now().Add(hangGuard))); err != nil {
				t.Fatal(err)
			}
			var stderr bytes.Buffer
			p := rlxc(t, dir, &stderr, "tiny.safetensors", "-o", "x.rlx", "--report", "pipe")
			if _, err := r.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Millisecond) // longer than a tick of a file system's clock
			err = c.do(filepath.Join(dir, "tiny.safetensors"))
			rest, rerr := os.Open(pipe) // ends when rlxc closes its end; r would not, because it can also write
			r.Close()
			if rerr == nil {
				_, rerr = io.Copy(io.Discard, rest)
				rest.Close()
			}
			if rerr != nil || err != nil {
				t.Error(err, rerr)
			}
			if got := statusOf(p.Wait()); got != c.status || got != 0 && !strings.Contains(stderr.String(), "RLX3010") {
				t.Errorf("status %d, want %d: %s", got, c.status, &stderr)
			}
			got, err := os.ReadFile(filepath.Join(dir, "x.rlx"))
			if c.status == 0 && !bytes.Equal(got, artifact) || c.status != 0 && err == nil {
				t.Errorf("an artifact of %d bytes, %v", len(got), err)
			}
		})
	}
}

// shrink reduces a pipe's buffer to one page.
func shrink(pipe *os.File) error {
	c, err := pipe.SyscallConn()
	if err != nil {
		return err
	}
	cerr := c.Control(func(fd uintptr) { _, err = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, os.Getpagesize()) })
	return errors.Join(cerr, err)
}

// flipLast changes the last byte of a file.
func flipLast(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt([]byte{b[len(b)-1] ^ 1}, int64(len(b)-1))
	return err
}
