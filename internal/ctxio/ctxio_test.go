//go:build unix

package ctxio

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/iotest"
	"time"
)

var errTold = errors.New("told to stop")

// told returns a context that ends with errTold while the test waits for something that never happens.
func told(t *testing.T) context.Context {
	ctx, cancel := context.WithCancelCause(t.Context())
	timer := time.AfterFunc(20*time.Millisecond, func() { cancel(errTold) })
	t.Cleanup(func() { timer.Stop(); cancel(nil) })
	return ctx
}

func fifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOpenWaits(t *testing.T) {
	for _, flag := range []int{os.O_RDONLY, os.O_WRONLY} {
		if f, err := OpenFile(told(t), fifo(t), flag, 0); !errors.Is(err, errTold) || f != nil {
			t.Errorf("flag %d: %v, %v; want the cause of the context", flag, f, err)
		}
	}
	if _, err := Open(t.Context(), filepath.Join(t.TempDir(), "x")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such file: %v", err)
	}
}

// TestLateOpenCloses checks that a file is closed if its open succeeds after the caller has given up. The other end of
// the pipe then reads EOF.
func TestLateOpenCloses(t *testing.T) {
	path := fifo(t)
	if _, err := OpenFile(told(t), path, os.O_WRONLY, 0); !errors.Is(err, errTold) {
		t.Fatal(err)
	}
	r, err := os.Open(path) // its writer is the abandoned goroutine
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if b, err := io.ReadAll(r); len(b) > 0 || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}

func TestSilentPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	in := NewReader(told(t), r)
	if n, err := in.Read(make([]byte, 9)); n != 0 || !errors.Is(err, errTold) {
		t.Errorf("read: %d, %v", n, err)
	}
	if n, err := in.Read(make([]byte, 9)); n != 0 || !errors.Is(err, errTold) {
		t.Errorf("second read: %d, %v", n, err)
	}
	n, err := NewWriter(told(t), w).Write(make([]byte, 1<<22)) // more than a pipe's buffer
	if n >= 1<<22 || !errors.Is(err, errTold) {
		t.Errorf("write: %d, %v", n, err)
	}
}

// TestContents checks that data is unchanged, for both kinds of files and any size of call.
func TestContents(t *testing.T) {
	want := make([]byte, chunk+17)
	for i := range want {
		want[i] = byte(i * 7 >> 3)
	}
	path := filepath.Join(t.TempDir(), "file")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	for _, out := range []*os.File{f, w} {
		written := make(chan error, 1)
		go func() {
			n, err := NewWriter(t.Context(), out).Write(want)
			if err == nil && n != len(want) {
				err = io.ErrShortWrite
			}
			written <- errors.Join(err, out.Close())
		}()
		in := io.Reader(r)
		if out == f {
			if err := <-written; err != nil {
				t.Fatal(err)
			}
			written <- nil
			if in, err = Open(t.Context(), path); err != nil {
				t.Fatal(err)
			}
		}
		if err := iotest.TestReader(NewReader(t.Context(), in), want); err != nil {
			t.Errorf("%s: %v", out.Name(), err)
		}
		if err := <-written; err != nil {
			t.Error(err)
		}
	}
	broken := errors.New("broken")
	if _, err := io.ReadAll(NewReader(t.Context(), iotest.ErrReader(broken))); err != broken {
		t.Errorf("error %v; want that of the reader", err)
	}
	var b bytes.Buffer
	if n, err := NewWriter(t.Context(), &b).Write(want); n != len(want) || err != nil || !bytes.Equal(b.Bytes(), want) {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// TestEndedContext checks that a context that has ended also stops access to a regular file.
func TestEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errTold)
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n, err := NewWriter(ctx, f).Write([]byte("x")); n != 0 || !errors.Is(err, errTold) {
		t.Errorf("write: %d, %v", n, err)
	}
	if n, err := NewReader(ctx, f).Read(make([]byte, 1)); n != 0 || !errors.Is(err, errTold) {
		t.Errorf("read: %d, %v", n, err)
	}
}
