package format

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/plan"
	"github.com/rlx-go/rlx/core/program"
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
		if !ok || q != v.Programs()[i] || q.Graph.String() != p.Graph.String() || q.ArenaSize != p.ArenaSize ||
			q.IOSize != p.IOSize || q.StateSize != p.StateSize {
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
		if w := q.WeightsExtent(); len(q.Graph.Params()) > 0 && w != 256+512 { // b, padding, w
			t.Errorf("uses %d bytes of the weights", w)
		}
	}
	m := v.Meta()
	if m.Model != "mlp" || len(m.Methods) != 10 || !reflect.DeepEqual(m.Task, a.Meta.Task) ||
		m.Sources[0] != a.Meta.Sources[0] || m.Pairs[1] != a.Meta.Pairs[1] ||
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

// patterned returns a weight of n floats whose bytes depend on their positions.
func patterned(name string, n int64, seed byte) Weight {
	t := ir.TypeOf(dtype.F32, n)
	return Weight{Name: name, Type: t, Write: func(w io.Writer) error {
		buf := make([]byte, 100_001) // divides no other size
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

// TestChunks checks weights larger than a chunk, and weights that end before, at and after the end of a chunk.
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
		// A flipped bit in each chunk is detected by Open in mode Full, when the chunk is requested in mode Lazy, and
		// never in mode None.
		for at := int64(ChunkSize - 1); at < size; at += ChunkSize {
			section[at] ^= 4
			if _, err := verifyBytes(b); !errors.Is(err, code.Verifier(12)) {
				t.Errorf("flipped bit in byte %d of the weights: %v", at, err)
			}
			lazy, err := Verify(bytes.NewReader(b), int64(len(b)), Policy{Weights: Lazy})
			if err != nil {
				t.Fatal(err)
			}
			chunk := at / ChunkSize * ChunkSize
			if err := lazy.VerifyWeights(at, 1); !errors.Is(err, code.Verifier(12)) {
				t.Errorf("byte %d asked for: %v", at, err)
			}
			if chunk > 0 {
				if err := lazy.VerifyWeights(0, chunk); err != nil {
					t.Errorf("bytes before it asked for: %v", err)
				}
			}
			if none, err := Verify(bytes.NewReader(b), int64(len(b)), Policy{Weights: None}); err != nil ||
				none.VerifyWeights(at, 1) != nil {
				t.Errorf("mode None: %v", err)
			}
			section[at] ^= 4
		}
		if err := v.VerifyWeights(1, size); !errors.Is(err, code.Verifier(20)) {
			t.Errorf("more than there is: %v", err)
		}
	}
}

// TestNoWeights checks that an artifact without weights has no TNSR, CHNK and WGTS.
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

// TestFusedAndEmpty checks that fused ops are stored like all others, and that empty values have places of 0 bytes.
func TestFusedAndEmpty(t *testing.T) {
	weights := testWeights()
	dir, err := Layout(weights)
	if err != nil {
		t.Fatal(err)
	}
	p := build(t, `graph f
sym N = 4..4
x = input : f32[4,8]
none = input : f32[0,8]
w = param : f32[16,8]
y = fused_matmul x, w {act="relu", trans_b=true} : f32[4,16]
e = narrow y {axis=0, len=0, start=2} : f32[0,16]
n = neg e : f32[0,16]
z = concat n, y {axis=0} : f32[4,16]
m = neg none : f32[0,8]
return z=z, m=m
`, "cpu", dir)
	path := filepath.Join(t.TempDir(), "a.rlx")
	if _, err := Write(context.Background(), path, Artifact{Programs: []*program.Program{p}}, weights); err != nil {
		t.Fatal(err)
	}
	v, err := Open(path, Policy{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	checkAccepted(t, v.Programs())
}

// TestEmptyWeights checks that weights may have no elements, alone and beside others. A file whose weights have no
// bytes has no WGTS and no CHNK, but it lists the weights.
func TestEmptyWeights(t *testing.T) {
	const text = `graph f
a = param : f32[0,4]
b = param : f32[2,4]
c = param : i64[3,0]
x = input : f32[2,4]
y = concat a, b, x {axis=0} : f32[4,4]
return y=y, c=c
`
	b := make([]byte, 32)
	weight := func(name string, t ir.Type, data []byte) Weight {
		return Weight{Name: name, Type: t, Write: func(w io.Writer) error { _, err := w.Write(data); return err }}
	}
	none, some, ints := weight("a", ir.TypeOf(dtype.F32, 0, 4), nil), weight("b", ir.TypeOf(dtype.F32, 2, 4), b),
		weight("c", ir.TypeOf(dtype.I64, 3, 0), nil)
	for _, c := range []struct {
		text     string
		weights  []Weight
		size     int64
		sections int
	}{
		{text, []Weight{none, some, ints}, 256, 7},
		{text, []Weight{some, none, ints}, 256, 7},
		{text, []Weight{none, ints, some}, 32, 7},
		{"graph f\na = param : f32[0,4]\nreturn a=a\n", []Weight{none}, 0, 5},
		{"graph f\na = param : f32[0,4]\nc = param : i64[3,0]\nreturn a=a, c=c\n", []Weight{none, ints}, 0, 5},
	} {
		dir, err := Layout(c.weights)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "a.rlx")
		if _, err := Write(t.Context(), path, Artifact{Programs: []*program.Program{build(t, c.text, "cpu", dir)}},
			c.weights); err != nil {
			t.Fatal(err)
		}
		v, err := Open(path, Policy{Weights: Full})
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		if _, size := v.WeightsSection(); size != c.size || len(v.Sections()) != c.sections ||
			len(v.Weights().Tensors()) != len(c.weights) {
			t.Errorf("%d weights of %d bytes, %d sections; want %d, %d, %d", len(v.Weights().Tensors()), size,
				len(v.Sections()), len(c.weights), c.size, c.sections)
		}
		for _, w := range v.Weights().Tensors() {
			if err := v.VerifyWeights(w.Offset, w.Size); err != nil {
				t.Error(err)
			}
		}
		checkAccepted(t, v.Programs())
	}
}

// TestTraversal checks that a method whose name is a path is refused before anything is written, and that a backend
// refuses it, too.
func TestTraversal(t *testing.T) {
	dir := t.TempDir()
	a, weights := testArtifact(t)
	a.Programs[2].Method = "../victim/m"
	_, err := Write(context.Background(), filepath.Join(dir, "a.rlx"), a, weights)
	if !errors.Is(err, code.ArtifactSource) || !errors.Is(err, code.Verifier(17)) {
		t.Errorf("Write: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	b, err := EncodeProgram(a.Programs[2])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := DecodeProgram(b); !errors.Is(err, code.Verifier(17)) {
		t.Errorf("DecodeProgram: %v", err)
	}
}

func TestLayout(t *testing.T) {
	w := func(name string, n int64) Weight { return Weight{Name: name, Type: ir.TypeOf(dtype.U8, n)} }
	d, err := Layout(
		[]Weight{w("a", 1), w("b", LargeTensor-1), w("c", LargeTensor), w("d", 256), w("e", 1), w("f", LargeTensor+1)})
	if err != nil {
		t.Fatal(err)
	}
	const mib = 1 << 20
	for i, want := range []int64{0, 256, mib + 16384, 2*mib + 16384, 2*mib + 16640, 2*mib + 32768} {
		if x := d.Tensors()[i]; x.Offset != want {
			t.Errorf("%s is at %d, want %d", x.Name, x.Offset, want)
		}
	}
	if off, ok := d.Offset("c"); !ok || off != mib+16384 || d.Size() != 3*mib+32769 {
		t.Errorf("c at %d, %d bytes in all", off, d.Size())
	}
	if _, ok := d.Offset("g"); ok {
		t.Error("g has a place")
	}
}

// TestAlignOfWeights checks that large weights begin at a multiple of HugeAlign, and that either alignment is read at
// any size.
func TestAlignOfWeights(t *testing.T) {
	for size, want := range map[int64]int64{HugeWeights - 4: WeightsAlign, HugeWeights: HugeAlign} {
		a, weights := testArtifact(t) // shorter than LargeAlign, where the next tensor begins
		path := filepath.Join(t.TempDir(), "a.rlx")
		if _, err := Write(context.Background(), path, a,
			append(weights, patterned("big", (size-LargeAlign)/4, 3))); err != nil {
			t.Fatal(err)
		}
		v, err := Open(path, Policy{Weights: Full})
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		if off, got := v.WeightsSection(); got != size || off != want {
			t.Errorf("%d bytes at %d; want %d at %d", got, off, size, want)
		}
	}
	f := forge(t)
	f.alignWeights = HugeAlign
	b := f.file()
	v, err := verifyBytes(b)
	if err != nil {
		t.Fatal(err)
	}
	if off, _ := v.WeightsSection(); off != HugeAlign {
		t.Errorf("small weights at %d; want %d", off, HugeAlign)
	}
	b[HugeAlign-1] = 1
	if _, err := verifyBytes(b); !errors.Is(err, code.Verifier(9)) {
		t.Errorf("padding that is not zero: %v", err)
	}
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

// TestWire checks that the verifier accepts the output of the planner, also after it was sent to a backend.
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
	b, err := EncodeProgram(p)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := DecodeProgram(b); diag.ExitCode(err) != 4 {
		t.Errorf("a program that is wrong is accepted: %v", err)
	}
}
