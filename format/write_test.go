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

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/plan"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/internal/atomicfile"
)

func TestRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.rlx")
	a, weights := testArtifact(t)
	info, err := Write(context.Background(), path, a, weights)
	if err != nil {
		t.Fatal(err)
	}
	v, err := Open(path, Policy{Root: &info.Root})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	checkAccepted(t, v.Programs())
	if v.Size() != info.Size || v.Root() != info.Root {
		t.Errorf("%d bytes and root %x; Write said %+v", v.Size(), v.Root(), info)
	}
	for i, p := range a.Programs {
		q, ok := v.Program(p.Method, p.Target)
		if !ok || q != v.Programs()[i] || q.Graph.String() != p.Graph.String() || q.ArenaSize != p.ArenaSize || q.IOSize != p.IOSize {
			t.Fatalf("program %s for %s came back as\n%v", p.Method, p.Target, q)
		}
		for k := range p.Places {
			if q.Places[k] != p.Places[k] {
				t.Errorf("node %d: place %+v came back as %+v", k, p.Places[k], q.Places[k])
			}
		}
		for k := range p.Steps {
			if q.Steps[k] != p.Steps[k] {
				t.Errorf("step %d: %+v came back as %+v", k, p.Steps[k], q.Steps[k])
			}
		}
		if w := WeightsExtent(q); w != 256+512 { // b, padding, w
			t.Errorf("uses %d bytes of the weights", w)
		}
	}
	m := v.Meta()
	if m.Model != "mlp" || len(m.Methods) != 2 || *m.Segment != *a.Meta.Segment || m.Sources[0] != a.Meta.Sources[0] || m.Pairs[1] != a.Meta.Pairs[1] ||
		m.Opset != Opset || m.Precisions[0] != "f32" || m.Producer != a.Meta.Producer {
		t.Errorf("META came back as %+v", m)
	}
	off, size := v.WeightsSection()
	section := make([]byte, size)
	if _, err := v.File().ReadAt(section, off); err != nil {
		t.Fatal(err)
	}
	if off%WeightsAlign != 0 || size != v.Weights().Size() {
		t.Errorf("weights: %d bytes at %d", size, off)
	}
	for _, w := range weights {
		var b bytes.Buffer
		if err := w.Write(&b); err != nil {
			t.Fatal(err)
		}
		x, ok := v.Weights().Find(w.Name)
		if !ok || !bytes.Equal(section[x.Offset:][:x.Size], b.Bytes()) || !x.Type.Equal(w.Type) {
			t.Errorf("weight %s came back as %+v", w.Name, x)
		}
	}
}

// patterned is a weight of n floats whose bytes tell where they belong.
func patterned(name string, n int64, seed byte) Weight {
	t := ir.TypeOf(ir.MustType("f32[1]").DType, n)
	return Weight{name, t, func(w io.Writer) error {
		buf := make([]byte, 100_001) // no divisor of anything
		for at := int64(0); at < 4*n; {
			b := buf[:min(int64(len(buf)), 4*n-at)]
			for i := range b {
				b[i] = patternAt(at+int64(i), seed)
			}
			if _, err := w.Write(b); err != nil {
				return err
			}
			at += int64(len(b))
		}
		return nil
	}}
}

func patternAt(at int64, seed byte) byte { return byte(at*7) ^ byte(at>>8) ^ byte(at>>16) ^ seed }

// Weights larger than a chunk, and ends in, before and behind a chunk's end.
func TestChunks(t *testing.T) {
	for _, n := range []int64{ChunkSize/4 - 64, ChunkSize / 4, ChunkSize/4 + 1, 3*ChunkSize/4 + 5} {
		a, weights := testArtifact(t)
		weights = append(weights, patterned("big", n, 3), patterned("tail", 300, 9))
		path := filepath.Join(t.TempDir(), "a.rlx")
		if _, err := Write(context.Background(), path, a, weights); err != nil {
			t.Fatal(err)
		}
		v, err := Open(path, Policy{Weights: Lazy})
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		base, size := v.WeightsSection()
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		section := b[base:]
		for name, seed := range map[string]byte{"big": 3, "tail": 9} {
			x, _ := v.Weights().Find(name)
			for i, c := range section[x.Offset:][:x.Size] {
				if c != patternAt(int64(i), seed) {
					t.Fatalf("%d floats: %s differs at byte %d", n, name, i)
				}
			}
			if want := int64(TensorAlign); name == "big" {
				want = LargeAlign
				if x.Offset%want != 0 {
					t.Errorf("%s is at %d", name, x.Offset)
				}
			}
		}
		if err := v.VerifyWeights(0, size); err != nil {
			t.Error(err)
		}
		// A bit in each chunk is noticed, at once in mode Full, when it is asked for in mode Lazy, never in mode None.
		for at := int64(ChunkSize - 1); at < size; at += ChunkSize {
			section[at] ^= 4
			if _, err := verifyBytes(b); !errors.Is(err, CodeOf(12)) {
				t.Errorf("flipped bit in byte %d of the weights: %v", at, err)
			}
			lazy, err := Verify(bytes.NewReader(b), int64(len(b)), Policy{Weights: Lazy})
			if err != nil {
				t.Fatal(err)
			}
			chunk := at / ChunkSize * ChunkSize
			if err := lazy.VerifyWeights(at, 1); !errors.Is(err, CodeOf(12)) {
				t.Errorf("byte %d asked for: %v", at, err)
			}
			if chunk > 0 {
				if err := lazy.VerifyWeights(0, chunk); err != nil {
					t.Errorf("bytes before it asked for: %v", err)
				}
			}
			if none, err := Verify(bytes.NewReader(b), int64(len(b)), Policy{Weights: None}); err != nil || none.VerifyWeights(at, 1) != nil {
				t.Errorf("mode None: %v", err)
			}
			section[at] ^= 4
		}
		if err := v.VerifyWeights(1, size); !errors.Is(err, CodeOf(20)) {
			t.Errorf("more than there is: %v", err)
		}
	}
}

// An artifact without weights has no TNSR, CHNK and WGTS.
func TestNoWeights(t *testing.T) {
	dir, err := Layout(nil)
	if err != nil {
		t.Fatal(err)
	}
	p := build(t, "graph f\nx = input : f32[4]\ny = neg x : f32[4]\nreturn y=y\n", "cpu", dir)
	path := filepath.Join(t.TempDir(), "a.rlx")
	if _, err := Write(context.Background(), path, Artifact{Programs: []*program.Program{p}}, nil); err != nil {
		t.Fatal(err)
	}
	v, err := Open(path, Policy{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if off, size := v.WeightsSection(); off != 0 || size != 0 || len(v.Sections()) != 4 {
		t.Errorf("weights of %d bytes at %d; sections %v", size, off, v.Sections())
	}
	checkAccepted(t, v.Programs())
}

func TestSameInputSameBytes(t *testing.T) {
	a, weights := testArtifact(t)
	weights = append(weights, patterned("big", 3*ChunkSize/4, 1))
	var first []byte
	for range 4 {
		path := filepath.Join(t.TempDir(), "other name.rlx")
		if _, err := Write(context.Background(), path, a, weights); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = b
		} else if !bytes.Equal(first, b) {
			t.Fatalf("two writes differ at byte %d", firstDifference(first, b))
		}
	}
}

// leftovers fails if the folder of path holds anything but, perhaps, path as it was.
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

// Whatever stops Write, the old file stays as it was and nothing else appears.
func TestWriteFails(t *testing.T) {
	broken := errors.New("the source broke")
	coded := diag.New(atomicfile.CodeWrite, "x", "a source with a code of its own")
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
		{"too few bytes", context.Background(), change(func(w io.Writer) error { _, err := w.Write(make([]byte, 5)); return err }), CodeSource},
		{"no bytes", context.Background(), change(func(io.Writer) error { return nil }), CodeSource},
		{"too many bytes", context.Background(), change(func(w io.Writer) error {
			if err := big.Write(w); err != nil {
				return err
			}
			_, err := w.Write([]byte{0})
			return err
		}), CodeSource},
		{"too many bytes, unnoticed", context.Background(), change(func(w io.Writer) error {
			if err := big.Write(w); err != nil {
				return err
			}
			_, _ = w.Write([]byte{0})
			return nil
		}), CodeSource},
		{"source error", context.Background(), change(func(w io.Writer) error { _, _ = w.Write(make([]byte, 9<<20)); return broken }), broken},
		{"source error with a code", context.Background(), change(func(io.Writer) error { return coded }), atomicfile.CodeWrite},
		{"cancelled", ctx, change(func(w io.Writer) error {
			_, _ = w.Write(make([]byte, 5<<20))
			cancel()
			return big.Write(w)
		}), diag.Interrupted},
		{"name", context.Background(), Weight{"a b", big.Type, big.Write}, CodeSource},
		{"name twice", context.Background(), Weight{"w", big.Type, big.Write}, CodeSource},
		{"symbolic type", context.Background(), Weight{"s", ir.MustType("f32[N]"), big.Write}, CodeSource},
		{"no elements", context.Background(), Weight{"s", ir.MustType("f32[0]"), big.Write}, CodeSource},
		{"too large", context.Background(), Weight{"s", ir.MustType("f32[1099511627776,2]"), big.Write}, CodeSource},
	} {
		for _, old := range [][]byte{nil, []byte("the old file")} {
			path := filepath.Join(t.TempDir(), "a.rlx")
			if old != nil {
				if err := os.WriteFile(path, old, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			a, weights := testArtifact(t)
			if _, err := Write(c.ctx, path, a, append(weights, c.w)); !errors.Is(err, c.want) || diag.ExitCode(err) == 70 {
				t.Errorf("%s: %v, want %v", c.name, err, c.want)
			}
			leftovers(t, path, old)
		}
	}
	a, weights := testArtifact(t)
	a.Programs[0].Places[3].Offset++
	path := filepath.Join(t.TempDir(), "a.rlx")
	if _, err := Write(context.Background(), path, a, weights); !errors.Is(err, CodeSource) || !strings.Contains(err.Error(), "multiple of 256") {
		t.Errorf("bad plan: %v", err)
	}
	leftovers(t, path, nil)
	if _, err := Write(context.Background(), filepath.Join(path, "b.rlx"), a, weights); diag.ExitCode(err) == 70 || err == nil {
		t.Errorf("no folder: %v", err)
	}
	if _, err := Write(context.Background(), os.DevNull, Artifact{}, nil); err == nil || diag.ExitCode(err) == 70 {
		t.Errorf("device: %v", err)
	}
}

// failingWriter takes n writes and fails then, as a full disk does.
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

// The write that fails is what the error tells, whichever chunk it is, and no goroutine is left waiting.
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
			if !errors.Is(err, atomicfile.CodeWrite) || strings.Contains(err.Error(), "temporary") {
				t.Errorf("%d writes: %v", n, err)
			}
		}
	}
	for range 10_000 { // they have been waited for, but may not have exited yet
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), before)
}

// Memory is a few chunks, however large the weights.
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

// What the planner makes fits the verifier also when it is sent to a backend.
func TestWire(t *testing.T) {
	v, err := verifyBytes(artifactBytes(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range v.Programs() {
		b, err := EncodeProgram(p)
		if err != nil {
			t.Fatal(err)
		}
		q, err := DecodeProgram(b)
		if err != nil {
			t.Fatal(err)
		}
		if err := plan.CheckProgram(q); err != nil || q.Graph.String() != p.Graph.String() || q.Target != p.Target {
			t.Errorf("came back as %v (%v)", q.Graph, err)
		}
		for i := range b {
			c := bytes.Clone(b)
			c[i] ^= 1 << (i % 8)
			if _, err := DecodeProgram(c); err != nil && diag.ExitCode(err) != 4 {
				t.Fatalf("byte %d: %v", i, err)
			}
			if _, err := DecodeProgram(b[:i]); diag.ExitCode(err) != 4 {
				t.Fatalf("cut to %d: %v", i, err)
			}
		}
	}
	p := v.Programs()[0]
	p.Places[3].Offset += 256
	if _, err := EncodeProgram(p); diag.ExitCode(err) != 4 {
		t.Errorf("a program that is wrong is sent: %v", err)
	}
}

// What is on disk is read back: a byte that changed between hashing and reading back is noticed in every chunk.
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
