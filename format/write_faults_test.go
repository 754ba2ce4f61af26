package format

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
)

// leftovers fails the test if the folder of path contains anything except path with its old contents.
func leftovers(t *testing.T, path string, old []byte) {
	t.Helper()
	list, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if e.Name() != filepath.Base(path) {
			t.Errorf("left behind: %s", e.Name())
		}
	}
	if b, err := os.ReadFile(path); old == nil && err == nil || !bytes.Equal(b, old) {
		t.Errorf("%s was touched (%v)", path, err)
	}
}

// TestWriteFails checks that the old file is unchanged and no other file appears if Write fails for any reason.
func TestWriteFails(t *testing.T) {
	broken := errors.New("the source broke")
	coded := diag.New(code.Output, "x", "a source with a code of its own")
	ctx, cancel := context.WithCancel(context.Background())
	big := patterned("big", 3*ChunkSize/2, 0) // 6 chunks
	change := func(f func(io.Writer) error) Weight {
		w := big
		w.Write = f
		return w
	}
	for _, c := range []struct {
		name string
		ctx  context.Context
		w    Weight
		want error
	}{
		{"too few bytes", context.Background(),
			change(func(w io.Writer) error { _, err := w.Write(make([]byte, 5)); return err }), code.ArtifactSource},
		{"no bytes", context.Background(), change(func(io.Writer) error { return nil }), code.ArtifactSource},
		{"too many bytes", context.Background(), change(func(w io.Writer) error {
			if err := big.Write(w); err != nil {
				return err
			}
			_, err := w.Write([]byte{0})
			return err
		}), code.ArtifactSource},
		{"too many bytes, unnoticed", context.Background(), change(func(w io.Writer) error {
			if err := big.Write(w); err != nil {
				return err
			}
			_, _ = w.Write([]byte{0})
			return nil
		}), code.ArtifactSource},
		{"source error", context.Background(),
			change(func(w io.Writer) error { _, _ = w.Write(make([]byte, 9<<20)); return broken }), broken},
		{"source error with a code", context.Background(), change(func(io.Writer) error { return coded }), code.Output},
		{"cancelled", ctx, change(func(w io.Writer) error {
			_, _ = w.Write(make([]byte, 5<<20))
			cancel()
			return big.Write(w)
		}), diag.Interrupted},
		{"name", context.Background(), Weight{Name: "a b", Type: big.Type, Write: big.Write}, code.ArtifactSource},
		{"name twice", context.Background(), Weight{Name: "w", Type: big.Type, Write: big.Write}, code.ArtifactSource},
		{"symbolic type", context.Background(), Weight{Name: "s", Type: ir.MustType("f32[N]"), Write: big.Write},
			code.ArtifactSource},
		{"no elements", context.Background(), Weight{Name: "s", Type: ir.MustType("f32[0]"), Write: big.Write},
			code.ArtifactSource},
		{"too large", context.Background(),
			Weight{Name: "s", Type: ir.MustType("f32[1099511627776,2]"), Write: big.Write},
			code.ArtifactSource},
	} {
		for _, old := range [][]byte{nil, []byte("the old file")} {
			path := filepath.Join(t.TempDir(), "a.rlx")
			if old != nil {
				if err := os.WriteFile(path, old, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			a, weights := testArtifact(t)
			if _, err := Write(c.ctx, path, a, append(weights, c.w)); !errors.Is(err, c.want) ||
				diag.ExitCode(err) == 70 {
				t.Errorf("%s: %v, want %v", c.name, err, c.want)
			}
			leftovers(t, path, old)
		}
	}
	a, weights := testArtifact(t)
	a.Programs[0].Places[3].Offset++
	path := filepath.Join(t.TempDir(), "a.rlx")
	if _, err := Write(context.Background(), path, a, weights); !errors.Is(err, code.ArtifactSource) ||
		!strings.Contains(err.Error(), "multiple of 256") {
		t.Errorf("bad plan: %v", err)
	}
	leftovers(t, path, nil)
	if _, err := Write(context.Background(), filepath.Join(path, "b.rlx"), a, weights); diag.ExitCode(err) == 70 ||
		err == nil {
		t.Errorf("no folder: %v", err)
	}
	if _, err := Write(context.Background(), os.DevNull, Artifact{}, nil); err == nil || diag.ExitCode(err) == 70 {
		t.Errorf("device: %v", err)
	}
}

// failingWriter accepts n writes and then fails, as on a full disk.
type failingWriter struct {
	f    *os.File
	left chan struct{}
}

func (w failingWriter) WriteAt(b []byte, off int64) (int, error) {
	select {
	case <-w.left:
		return w.f.WriteAt(b, off)
	default:
		return 0, &os.PathError{Op: "write", Path: "temporary", Err: errDisk}
	}
}

// TestFullDisk checks that the error of the failed write is returned for each chunk, and that no goroutine is left.
func TestFullDisk(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	before := runtime.NumGoroutine()
	weights := []Weight{patterned("a", 5*ChunkSize/4, 0), patterned("b", 5*ChunkSize/4, 1)}
	dir, err := Layout(weights)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 11 {
		out := failingWriter{f, make(chan struct{}, 20)}
		for range n {
			out.left <- struct{}{}
		}
		w := &writer{dir: dir}
		_, err := w.writeWeights(context.Background(), out, 0, weights)
		if full := n < 10; full && !errors.Is(err, errDisk) || !full && err != nil {
			t.Errorf("%d writes: %v", n, err)
		}
		if err != nil {
			err = writeError(context.Background(), "a.rlx", err)
			if !errors.Is(err, code.Output) || strings.Contains(err.Error(), "temporary") {
				t.Errorf("%d writes: %v", n, err)
			}
		}
	}
	for range 10_000 { // they have finished, but may not have exited yet
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), before)
}

// TestWriteMemory checks that Write needs the memory of a few chunks, even for large weights.
func TestWriteMemory(t *testing.T) {
	weights := []Weight{patterned("a", 40*ChunkSize/4, 0)}
	dir, err := Layout(weights)
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := (&writer{dir: dir}).writeWeights(context.Background(), discard{}, 0, weights); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	allocated := int64(after.TotalAlloc - before.TotalAlloc)
	if limit := int64(workerCount()+3) * ChunkSize; allocated > limit {
		t.Errorf("%d bytes allocated for %d of weights; at most %d", allocated, dir.Size(), limit)
	}
}

type discard struct{}

func (discard) WriteAt(b []byte, _ int64) (int, error) { return len(b), nil }

// TestReadBack checks that Write reads the file back and detects a byte in any chunk that changed after hashing.
func TestReadBack(t *testing.T) {
	a, weights := testArtifact(t)
	weights = append(weights, patterned("big", 2*ChunkSize/4+9, 3))
	dir, err := Layout(weights)
	if err != nil {
		t.Fatal(err)
	}
	w, err := newWriter(a, dir)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := w.write(context.Background(), f, weights); err != nil {
		t.Fatal(err)
	}
	v, err := w.readBack(f)
	if err != nil {
		t.Fatal(err)
	}
	base, size := v.WeightsSection()
	for at := base + 70; at < base+size; at += ChunkSize - 100 {
		b := make([]byte, 1)
		if _, err := f.ReadAt(b, at); err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte{b[0] ^ 1}, at); err != nil {
			t.Fatal(err)
		}
		if _, err := w.readBack(f); diag.ExitCode(err) != 4 {
			t.Errorf("byte %d changed: %v", at, err)
		}
		if _, err := f.WriteAt(b, at); err != nil {
			t.Fatal(err)
		}
	}
}
