package format

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
)

// TestLimits checks that a value at a limit passes that check (though maybe not all others), and that one more fails.
func TestLimits(t *testing.T) {
	name := func(n int64) string { return strings.Repeat("x", int(n)) }
	for _, c := range []struct {
		name  string
		limit int64
		check int
		forge func(f *forgery, n int64)
	}{
		{"sections", MaxSections, 6, func(f *forgery, n int64) {
			for i := range n - 9 {
				f.extra = append(
					f.extra, Section{Kind: Kind{'X', 'T', byte('A' + i/16), byte('A' + i%16)}, Align: 64, Size: 1})
			}
		}},
		{"pairs", MaxPairs, 15, func(f *forgery, n int64) {
			f.c.meta.Pairs = nil
			for i := range n {
				f.c.meta.Pairs = append(f.c.meta.Pairs, Pair{fmt.Sprintf("%04d", i), ""})
			}
		}},
		{"text", MaxName, 15, func(f *forgery, n int64) { f.c.meta.Model = name(n) }},
		{"string", MaxString, 15, func(f *forgery, n int64) { f.c.meta.Pairs[0].Value = name(n) }},
		{"node's name", MaxName, 15, func(f *forgery, n int64) { f.c.graphs[2].nodes[4].name = name(n) }},
		{"methods", MaxMethods, 15, func(f *forgery, n int64) { f.c.meta.Methods = make([]Method, n) }},
		{"programs", MaxPrograms, 15, func(f *forgery, n int64) { f.c.scheds = make([]rawSched, n) }},
		{"sources", MaxSources, 15, func(f *forgery, n int64) { f.c.meta.Sources = make([]Source, n) }},
		{"signature", MaxSignature, 15, func(f *forgery, n int64) { f.c.graphs[2].outputs = make([]rawOutput, n) }},
		{"symbols", ir.MaxSyms, 15, func(f *forgery, n int64) { f.c.graphs[2].syms = make(ir.Syms, n) }},
		{"operands", MaxOperands, 15, func(f *forgery, n int64) { f.c.graphs[2].nodes[4].in = make([]int64, n) }},
		{"operands of all nodes", MaxAllOperands, 15, func(f *forgery, n int64) {
			f.c.graphs[2].nodes = make([]rawNode, 0, n/MaxOperands+1)
			for ; n > 0; n -= MaxOperands {
				f.c.graphs[2].nodes = append(f.c.graphs[2].nodes, rawNode{in: make([]int64, min(n, MaxOperands))})
			}
		}},
		{"rank of an input in META", ir.MaxRank, 15, func(f *forgery, n int64) {
			f.c.meta.Methods[1].Inputs[0].Type.Shape = make(ir.Shape, n)
		}},
		{"attributes", MaxAttrs, 15, func(f *forgery, n int64) {
			f.c.graphs[2].nodes[4].attrs = nil
			for range n {
				f.c.graphs[2].nodes[4].attrs = append(f.c.graphs[2].nodes[4].attrs, ir.Attr{Name: "a", Value: true})
			}
		}},
		{"integers", MaxInts, 15, func(f *forgery, n int64) {
			f.c.graphs[2].nodes[9].attrs[0].Value = make([]int64, n)
		}},
		{"rank", ir.MaxRank, 18, func(f *forgery, n int64) {
			f.c.graphs[2].nodes[1].typ.shape = slices.Repeat(ir.ShapeOf(1), int(n))
		}},
		{"dim", ir.MaxDim, 18, func(f *forgery, n int64) {
			f.c.graphs[2].nodes[1].typ = rawType{"i8", ir.ShapeOf(n)}
		}},
		{"bytes of a value", MaxTensorBytes, 18, func(f *forgery, n int64) {
			f.c.graphs[2].nodes[1].typ = rawType{"i8", ir.ShapeOf(n>>4, 16+n/(MaxTensorBytes+1))}
		}},
		{"elements", ir.MaxElems, 18, func(f *forgery, n int64) {
			// A dim of 0 makes the size 0. It must not hide the other dims.
			f.c.graphs[2].nodes[1].typ = rawType{"i8", ir.ShapeOf(n>>8, 256+n/(ir.MaxElems+1), 0)}
		}},
		{"symbol's largest value", ir.MaxDim, 28, func(f *forgery, n int64) { f.c.graphs[2].syms[0].Max = n }},
		{"opset", Opset, 22, func(f *forgery, n int64) { f.c.meta.Opset = int(n) }},
		{"arena in steps of 256", MaxArenaBytes / 256, 29, func(f *forgery, n int64) { f.c.plans[2].arena = 256 * n }},
	} {
		for n, bad := range map[int64]bool{c.limit - 1: false, c.limit: false, c.limit + 1: true} {
			if c.name == "opset" && n == 0 {
				continue
			}
			f := forge(t)
			c.forge(f, n)
			_, err := verifyBytes(f.file())
			if errors.Is(err, code.Verifier(c.check)) != bad {
				t.Errorf("%s: %d: %v", c.name, n, err)
			}
		}
	}
}

// TestHugeFile checks that reading a sparse file of any claimed size takes resources for its actual tables only.
func TestHugeFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "huge.rlx")
	if err := os.WriteFile(path, artifactBytes(t), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 1<<40); err != nil {
		t.Skipf("no files with holes here: %v", err)
	}
	if v, err := Open(path, Policy{}); !errors.Is(err, code.Verifier(4)) {
		t.Errorf("%v %v", v, err)
	}
}

// holes reads as zeros after its bytes.
type holes []byte

func (h holes) ReadAt(b []byte, off int64) (int, error) {
	clear(b)
	if off < int64(len(h)) {
		copy(b, h[off:])
	}
	return len(b), nil
}

// TestSectionsTogether checks the limit on all msgpack sections together. A newer schema version (check 11) stops the
// reader before it reads them.
func TestSectionsTogether(t *testing.T) {
	for excess, want := range map[int64]int{-64: 11, 0: 11, 64: 10} {
		var table []byte
		off := int64(HeaderSize + 4*EntrySize)
		for i, size := range []int64{MaxSectionSize, MaxSectionSize, MaxSectionSize - 128, 128 + excess} {
			table = appendEntry(
				table, &Section{Kind: kinds[i].kind, Flags: kinds[i].flags, Offset: off, Size: size,
					Align: SectionAlign, Version: Schema + 1})
			off += size
		}
		_, err := Verify(holes(append(appendHeader(off, table), table...)), off, Policy{})
		if !errors.Is(err, code.Verifier(want)) {
			t.Errorf("%d bytes beyond the limit: %v, want check %d", excess, err, want)
		}
	}
}

// TestWorkDoesNotWrap checks that estimates of work do not wrap: eight products of 2^61 FLOPs each exceed an int64.
func TestWorkDoesNotWrap(t *testing.T) {
	text := "graph f\na0 = input : f32[1048576,1048576]\n"
	for i := range 8 {
		text += fmt.Sprintf("a%d = matmul a%d, a%d : f32[1048576,1048576]\n", i+1, i, i)
	}
	g, err := ir.Parse(text + "return y=a8\n")
	if err != nil {
		t.Fatal(err)
	}
	p := &program.Program{Method: "f", Target: "cpu", Graph: g}
	for _, limit := range []int64{1, 1 << 61, math.MaxInt64 - 1} {
		if err := checkWork(p, &rawGraph{}, Policy{MaxWork: limit}); !errors.Is(err, code.Verifier(38)) {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
}
