package format

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
)

// bulky returns artifacts that each consist of as many items as possible of one kind.
func bulky() map[string]func(n int) *forgery {
	f32 := func(dims ...int64) rawType {
		t := rawType{dtype: "f32"}
		for _, d := range dims {
			t.shape = append(t.shape, ir.Static(d))
		}
		return t
	}
	artifact := func(g rawGraph, p rawPlan, s rawSched) *forgery {
		g.method, g.target = "f", "cpu"
		s.queues = 1
		m := &Meta{Opset: Opset, Methods: []Method{{Name: "f"}}, Precisions: []string{"f32"}}
		m.Methods[0].Syms = g.syms
		m.Methods[0].Syms = g.syms
		c := &contents{meta: m, graphs: []rawGraph{g}, plans: []rawPlan{p}, scheds: []rawSched{s}}
		for _, x := range g.nodes {
			if x.op == "input" {
				t, _ := checkType(&x.typ, g.syms, "", 0)
				m.Methods[0].Inputs = append(m.Methods[0].Inputs, Value{Name: x.name, Type: t})
			}
		}
		for _, o := range g.outputs {
			t, _ := checkType(&g.nodes[o.node].typ, g.syms, "", 0)
			m.Methods[0].Outputs = append(m.Methods[0].Outputs, Value{Name: o.name, Type: t})
		}
		return &forgery{c: c}
	}
	input := func(t rawType) rawNode { return rawNode{op: "input", name: "x", typ: t} }
	// chain makes n nodes. Each reads the one before, and they alternate between two places.
	chain := func(n int, t rawType, node func(i int) rawNode) *forgery {
		g := rawGraph{nodes: []rawNode{input(t)}, outputs: []rawOutput{{"y", int64(n)}}}
		pl := rawPlan{arena: 512, io: 512, places: []rawPlace{{space: 2, size: 4, parent: -1}}}
		var s rawSched
		for i := 1; i <= n; i++ {
			x := node(i)
			x.in, x.typ = []int64{int64(i - 1)}, t
			g.nodes = append(g.nodes, x)
			pl.places = append(pl.places, rawPlace{space: 1, offset: 256 * int64(i%2), size: 4, parent: -1})
			s.steps = append(s.steps, rawStep{node: int64(i)})
		}
		pl.places[n] = rawPlace{space: 2, offset: 256, size: 4, parent: -1}
		return artifact(g, pl, s)
	}
	// consts makes n constants without elements, each with eight different symbolic dims.
	consts := func(n int, dim func(i int) string) *forgery {
		var g rawGraph
		var pl rawPlan
		var s rawSched
		for i := range n {
			t := rawType{dtype: "f32"}
			for k := range 8 {
				t.shape = append(t.shape, ir.MustDim(dim(8*i+k)))
			}
			g.nodes = append(g.nodes, rawNode{op: "const", typ: t, attrs: []ir.Attr{{Name: "value", Value: 0.5}}})
			pl.places = append(pl.places, rawPlace{space: 1, parent: -1})
			s.steps = append(s.steps, rawStep{node: int64(i)})
		}
		pl.places[n-1].space = 2
		g.syms = ir.Syms{{Name: "M"}, {Name: "N"}}
		g.outputs = []rawOutput{{"y", int64(n - 1)}}
		return artifact(g, pl, s)
	}
	ones := f32(1, 1, 1, 1, 1, 1, 1, 1)
	return map[string]func(n int) *forgery{
		"nodes": func(n int) *forgery { return chain(n, f32(), func(int) rawNode { return rawNode{op: "abs"} }) },
		"names": func(n int) *forgery {
			return chain(n, f32(), func(i int) rawNode { return rawNode{op: "abs", name: fmt.Sprint("n", i)} })
		},
		"dims": func(n int) *forgery {
			return chain(n, ones, func(int) rawNode { return rawNode{op: "abs"} })
		},
		"attributes": func(n int) *forgery {
			return chain(n, ones, func(int) rawNode {
				return rawNode{op: "transpose",
					attrs: []ir.Attr{{Name: "perm", Value: []int64{7, 6, 5, 4, 3, 2, 1, 0}}}}
			})
		},
		"weights": func(n int) *forgery {
			f := chain(1, f32(), func(int) rawNode { return rawNode{op: "abs"} })
			for i := range n {
				f.c.tensors = append(
					f.c.tensors, rawTensor{name: fmt.Sprint("w", i), typ: f32(1), offset: 256 * int64(i), size: 4})
			}
			f.weights = make([]byte, 256*(n-1)+4)
			return f
		},
		"symbolic": func(n int) *forgery {
			return consts(n/8, func(i int) string { return fmt.Sprint(i%MaxDims+2, "*N") })
		},
		"quotients": func(n int) *forgery {
			return consts(n, func(i int) string { return fmt.Sprintf("(((N+%d)*N+M)/3*N+3)/5", i%MaxDims+5) })
		},
		"operands": func(n int) *forgery {
			const k = MaxOperands
			g := rawGraph{nodes: []rawNode{input(f32(1))}}
			pl := rawPlan{arena: 4 * k, io: 256 + 4*k, places: []rawPlace{{space: 2, size: 4, parent: -1}}}
			var s rawSched
			attrs := []ir.Attr{{Name: "axis", Value: int64(0)}}
			for i := 1; i <= max(n/k, 1); i++ {
				g.nodes = append(g.nodes, rawNode{op: "concat", attrs: attrs, in: make([]int64, k), typ: f32(k)})
				pl.places = append(pl.places, rawPlace{space: 1, size: 4 * k, parent: -1})
				s.steps = append(s.steps, rawStep{node: int64(i)})
			}
			last := len(g.nodes) - 1
			pl.places[last] = rawPlace{space: 2, offset: 256, size: 4 * k, parent: -1}
			g.outputs = []rawOutput{{"y", int64(last)}}
			return artifact(g, pl, s)
		},
	}
}

// TestStructureMemory checks that no stage allocates more than the documented bytes per byte of structure and per
// operand, for structures made of each kind of item. The test counts all allocations, which is more than is in use at a
// time.
func TestStructureMemory(t *testing.T) {
	for name, make := range bulky() {
		f := make(2000)
		b := f.file()
		v, err := verifyBytes(b)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		p := v.Programs()[0]
		wire, err := EncodeProgram(p)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, stage := range []struct {
			name string
			do   func() error
		}{
			{"verify", func() error { _, err := verifyBytes(b); return err }},
			{"encode", func() error { _, err := EncodeProgram(p); return err }},
			{"decode", func() error { _, err := DecodeProgram(wire); return err }},
			{"bind", func() error { _, err := p.Bind(p.Graph.Syms.Max()); return err }},
		} {
			got := allocated(t, stage.do)
			const fixed = 256 << 10
			want := fixed + StructureMemory(v.StructureSize(), p)
			if len(p.Graph.Syms) > 0 {
				want += 20 << 10 * MaxDims // garbage, once for each different dim
			}
			if got > want {
				t.Errorf("%s: %s allocates %d bytes for %d of structure; want at most %d", name, stage.name, got,
					v.StructureSize(), want)
			}
		}
	}
}

// TestRefusedMemory checks that refusing a file takes no more memory than the limits allow, for long lists of every
// kind.
func TestRefusedMemory(t *testing.T) {
	const n = 20000
	for name, change := range map[string]func(f *forgery){
		"nodes":  func(f *forgery) { f.c.graphs[2].nodes = make([]rawNode, n) },
		"places": func(f *forgery) { f.c.plans[2].places = make([]rawPlace, n) },
		"steps":  func(f *forgery) { f.c.scheds[2].steps = make([]rawStep, n) },
		"weights": func(f *forgery) {
			f.c.tensors = make([]rawTensor, n)
		},
		"attributes": func(f *forgery) {
			for range n / MaxAttrs {
				f.c.graphs[2].nodes = append(
					f.c.graphs[2].nodes, rawNode{attrs: slices.Repeat([]ir.Attr{{Value: true}}, MaxAttrs)})
			}
		},
		"integers": func(f *forgery) {
			for range 8 {
				f.c.graphs[2].nodes = append(
					f.c.graphs[2].nodes, rawNode{attrs: []ir.Attr{{Value: make([]int64, MaxInts)}}})
			}
		},
		"dims": func(f *forgery) {
			for range n / MaxAttrs {
				f.c.graphs[2].nodes = append(
					f.c.graphs[2].nodes, rawNode{typ: rawType{shape: make(ir.Shape, MaxAttrs)}})
			}
		},
		"names": func(f *forgery) {
			for i := range n / 4 {
				f.c.graphs[2].nodes = append(
					f.c.graphs[2].nodes, rawNode{op: fmt.Sprint(i), typ: rawType{dtype: rawDType(fmt.Sprint("d", i))}})
			}
		},
		"values": func(f *forgery) {
			f.c.meta.Methods[1].Inputs = slices.Repeat([]Value{{Type: ir.MustType("i8[1,1,1,1,1,1,1,1]")}},
				MaxSignature)
		},
		"bodies":          func(f *forgery) { f.c.graphs[9].bodies = make([]rawBody, MaxBodies) },
		"nodes of bodies": func(f *forgery) { f.c.graphs[9].bodies[0].nodes = make([]rawNode, n) },
		"programs": func(f *forgery) {
			f.c.graphs, f.c.plans, f.c.scheds = make([]rawGraph, MaxPrograms), make([]rawPlan, MaxPrograms),
				make([]rawSched, MaxPrograms)
		},
	} {
		f := forge(t)
		change(f)
		size := 0
		for _, k := range codecs {
			size += len(k.bytes(f.c))
		}
		b := f.file()
		got := allocated(t, func() error {
			if _, err := verifyBytes(b); diag.ExitCode(err) != 4 {
				t.Errorf("%s: %v", name, err)
			}
			return nil
		})
		if want := StructureMemory(int64(size)) + 512<<10; got > want {
			t.Errorf("%s: %d bytes of structure are refused after allocating %d; want at most %d", name, size, got,
				want)
		}
	}
}

// TestOptionalMemory checks that an optional section, which may be as large as the file, is read in pieces.
func TestOptionalMemory(t *testing.T) {
	const size = 64 << 20
	f := forge(t)
	f.extra = []Section{{Kind: Kind{'D', 'B', 'G', 'I'}, Size: size, Align: SectionAlign, Version: Schema}}
	b := f.file()
	got := allocated(t, func() error {
		_, err := verifyBytes(b)
		return err
	})
	if got > size/8 {
		t.Errorf("a file with an optional section of %d bytes is verified after allocating %d", size, got)
	}
}

// allocated returns the number of bytes that do allocates.
func allocated(t *testing.T, do func() error) int64 {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := do(); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// TestDims checks the limits on the number of different dims, and on the number of those whose bounds need a search.
// They keep reading fast.
func TestDims(t *testing.T) {
	for _, c := range []struct {
		name  string
		dims  int
		dim   string
		check int // 0: accepted
	}{
		{"different", MaxDims - 8, "%d*N", 0}, {"different", MaxDims + 1, "%d*N", 15}, {"falling", MaxDims, "9-N", 0},
		{"falling", MaxDims + 1, "9-N", 18},
	} {
		f := forge(t)
		g, p, s := &f.c.graphs[2], &f.c.plans[2], &f.c.scheds[2]
		for i := range c.dims {
			text := c.dim
			if strings.Contains(text, "%") {
				text = fmt.Sprintf(text, i+20)
			}
			s.steps = append(s.steps, rawStep{node: int64(len(g.nodes))})
			g.nodes = append(
				g.nodes, rawNode{op: "const", typ: rawType{"f32", ir.Shape{ir.Static(0), ir.MustDim(text)}},
					attrs: []ir.Attr{{Name: "value", Value: 0.5}}})
			p.places = append(p.places, rawPlace{space: 1, parent: -1})
		}
		_, err := verifyBytes(f.file())
		if c.check == 0 && err != nil || c.check != 0 && !errors.Is(err, code.Verifier(c.check)) {
			t.Errorf("%d %s dims: %v", c.dims, c.name, err)
		}
	}
}

// TestOperands checks that a program with 2^20 operands is read. With one more, the reader must stop at once.
func TestOperands(t *testing.T) {
	if _, err := verifyBytes(bulky()["operands"](MaxAllOperands).file()); err != nil {
		t.Error(err)
	}
	b := bulky()["operands"](7 * MaxAllOperands).file()
	got := allocated(t, func() error {
		if _, err := verifyBytes(b); !errors.Is(err, code.Verifier(15)) {
			t.Errorf("7 * 2^20 operands: %v", err)
		}
		return nil
	})
	if most := int64(len(b) + 16*MaxAllOperands); got > most {
		t.Errorf("refusing them allocates %d bytes; want at most %d", got, most)
	}
}

// TestStructurePolicy checks that a structure that needs more memory than the host allows is refused before it is read.
func TestStructurePolicy(t *testing.T) {
	b := artifactBytes(t)
	v, err := verifyBytes(b)
	if err != nil {
		t.Fatal(err)
	}
	need := StructureMemory(v.StructureSize())
	reads := 0
	r := readerFunc(func(p []byte, off int64) (int, error) { reads++; return bytes.NewReader(b).ReadAt(p, off) })
	if _, err := Verify(r, int64(len(b)), Policy{MaxStructure: need}); err != nil {
		t.Error(err)
	}
	reads = 0
	if _, err := Verify(r, int64(len(b)), Policy{MaxStructure: need - 1}); !errors.Is(err, code.Verifier(38)) {
		t.Errorf("a byte less: %v", err)
	}
	if most := 2 + len(v.Sections()); reads > most { // header, table, and the padding before each section
		t.Errorf("refused after %d reads; want at most %d", reads, most)
	}
}

type readerFunc func(p []byte, off int64) (int, error)

func (f readerFunc) ReadAt(p []byte, off int64) (int, error) { return f(p, off) }
