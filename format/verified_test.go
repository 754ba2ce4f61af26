package format

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
)

// TestGuard checks that a panic in a check refuses the file.
func TestGuard(t *testing.T) {
	if err := guard(func() error { panic("x") }); !errors.Is(err, diag.Internal) {
		t.Error(err)
	}
}

// TestVerifiedWithoutFile checks what only artifacts from Verify have: no file, and here no weights.
func TestVerifiedWithoutFile(t *testing.T) {
	f := forge(t)
	f.weights = nil
	f.c.tensors, f.c.mutable, f.c.splits = nil, nil, nil
	k := slices.IndexFunc(f.c.graphs, func(g rawGraph) bool { return g.method == "peek" }) // has no weights
	f.c.graphs, f.c.plans, f.c.scheds = f.c.graphs[k:k+1], f.c.plans[k:k+1], f.c.scheds[k:k+1]
	var methods []Method
	for _, m := range f.c.meta.Methods {
		if m.Name == "peek" {
			methods = append(methods, m)
		}
	}
	f.c.meta.Methods, f.c.meta.Task = methods, nil
	b := f.file()
	v, err := Verify(bytes.NewReader(b), int64(len(b)), Policy{Weights: Lazy})
	if err != nil {
		t.Fatal(err)
	}
	if err := v.VerifyWeights(0, 0); err != nil {
		t.Error(err)
	}
	if err := v.VerifyWeights(0, 1); !errors.Is(err, code.Verifier(20)) {
		t.Error(err)
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
}

// TestUnchanged changes an open artifact so that its size and the time of its last change stay.
func TestUnchanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.rlx")
	b := artifactBytes(t)
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	v, err := Open(path, Policy{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	write := func(b []byte) {
		t.Helper()
		time.Sleep(20 * time.Millisecond) // longer than a tick of the file system's clock
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, st.ModTime(), st.ModTime()); err != nil {
			t.Fatal(err)
		}
	}
	write(b)
	if err := v.Unchanged(); err != nil {
		t.Errorf("the same bytes: %v", err)
	}
	b[len(b)-1] ^= 1
	write(b)
	if err := v.Unchanged(); !errors.Is(err, code.ArtifactChanged) {
		t.Errorf("other bytes: %v", err)
	}
}

// TestBadWire checks that a backend refuses a program with values outside their spaces, although it does not know the
// weights.
func TestBadWire(t *testing.T) {
	v, err := verifyBytes(artifactBytes(t))
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, p := range v.All() {
		for i, n := range p.Graph.Nodes {
			if n.Op.Name == "param" || n.Op.Tuple {
				continue
			}
			q := *p
			q.Places = slices.Clone(p.Places)
			for _, k := range []int{1, 1 << 20} {
				q.Places[i].Offset = p.Places[i].Offset + int64(k)*(p.ArenaSize+p.IOSize+p.StateSize+program.Align)
				b, err := EncodeProgram(&q)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := DecodeProgram(b); !errors.Is(err, code.Verifier(30)) &&
					!errors.Is(err, code.Verifier(31)) {
					t.Errorf("%s, node %d at %+v: %v", p.Method, i, q.Places[i], err)
				}
				tried++
			}
		}
	}
	t.Logf("%d programs", tried)
}

// TestOutputViews checks that an output may be part of a value, but only at a multiple of the alignment.
func TestOutputViews(t *testing.T) {
	const text = "graph main\nx = input : f32[65]\ny = relu x : f32[65]\n" +
		"z = narrow y {axis=0, len=1, start=%d} : f32[1]\nreturn z=z\n"
	for start, want := range map[int64]error{64: nil, 1: code.Verifier(37)} {
		p := build(t, fmt.Sprintf(text, start), "cpu", &Directory{})
		meta := &Meta{Model: "m", Opset: Opset, Methods: []Method{MethodOf("main", p.Graph)}}
		c := contentsOf(meta, []*program.Program{p}, nil, nil)
		c.graphs[0].method = "main"
		// instead of the copy that Build added, z itself is the output, and y is in the IO space
		y, z := &c.plans[0].places[1], &c.plans[0].places[2]
		y.space, y.offset = int64(slices.Index(spaces[:], program.IO)), p.IOSize
		z.space, z.offset = y.space, y.offset+4*start
		c.plans[0].io += 512
		c.graphs[0].outputs[0].node = 2
		if _, err := verifyBytes((&forgery{c: c}).file()); !errors.Is(err, want) {
			t.Errorf("an output at element %d of a value: %v", start, err)
		}
	}
}

// blockDef is an op that only compilers have. This package links none of theirs.
var blockDef = ir.Define(ir.Def[struct{}]{Name: "test_block", Doc: "A block.", Operands: "x", Block: true,
	Infer: func(s ir.Sig[struct{}]) (ir.Type, error) { return s.In[0], nil }})

// TestBlocks checks that an artifact has no block op, also where the compiler is linked and knows it.
func TestBlocks(t *testing.T) {
	p := build(t, "graph main\nx = input : f32[4]\ny = relu x : f32[4]\nreturn y=y\n", "cpu", &Directory{})
	c := contentsOf(&Meta{Model: "m", Opset: Opset, Methods: []Method{MethodOf("main", p.Graph)}},
		[]*program.Program{p}, nil, nil)
	c.graphs[0].method = "main"
	for _, op := range []string{"relu", blockDef.Name} {
		c.graphs[0].nodes[1].op = op
		_, err := verifyBytes((&forgery{c: c}).file())
		if want := op == blockDef.Name; errors.Is(err, code.Verifier(22)) != want || !want && err != nil {
			t.Errorf("%s: %v", op, err)
		}
	}
}

// TestWeightsRead checks that weights that cannot be read are no weights.
func TestWeightsRead(t *testing.T) {
	b := artifactBytes(t)
	v, err := verifyBytes(b)
	if err != nil {
		t.Fatal(err)
	}
	off, size := v.WeightsSection()
	for _, mode := range []Mode{Full, Lazy} {
		r := &brokenFrom{bytes.NewReader(b), off}
		if mode == Lazy {
			r.pos = int64(len(b))
		}
		v, err := Verify(r, int64(len(b)), Policy{Weights: mode})
		if mode == Lazy && err == nil {
			r.pos = off
			err = v.VerifyWeights(0, size)
		}
		if !errors.Is(err, errDisk) || !errors.Is(err, code.Verifier(12)) {
			t.Errorf("mode %d: %v", mode, err)
		}
	}
}

// brokenFrom fails to read from a position on.
type brokenFrom struct {
	io.ReaderAt
	pos int64
}

func (r *brokenFrom) ReadAt(b []byte, off int64) (int, error) {
	if off >= r.pos {
		return 0, errDisk
	}
	return r.ReaderAt.ReadAt(b, off)
}
