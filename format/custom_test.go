package format

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
)

// customText has an op that is defined outside of RLX, with an attribute of each kind. Its nodes are 0 x, 1 custom, 2
// result y; those of its body are 0 a, 1 b, 2 c.
const customText = `graph acme.wave
sym N = 0..64
a = input : f32[N]
b = sin a : f32[N]
c = neg b : f32[N]
return c=c

graph f
sym M = 1..8
x = input : f32[2*M]
y = custom x {abs=0.5, expansion=@acme.wave, name="acme.wave", own={a=1, b=2.5, c="x, {y}", d=true, e=[1,2], f=f16}} : f32[2*M]
return y=y
`

// TestCustom checks that a program with a custom op survives being written and read, and that the verifier finds faults
// in the op.
func TestCustom(t *testing.T) {
	p := build(t, customText, "npu", nil)
	encode := func(change func(g *rawGraph)) []byte {
		g, pl, s := graphOf(p), planOf(p), schedOf(p)
		for _, list := range [][]rawNode{g.nodes, g.bodies[0].nodes} {
			for i := range list {
				list[i].typ.shape = slices.Clone(list[i].typ.shape)
			}
		}
		g.bodies[0].syms = slices.Clone(g.bodies[0].syms)
		change(&g)
		return encoded(func(e *encoder) { encodeWire(e, &g, &pl, &s) })
	}
	again, err := DecodeProgram(encode(func(*rawGraph) {}))
	if err != nil {
		t.Fatal(err)
	}
	if a, b := again.Graph.String(), p.Graph.String(); a != b {
		t.Errorf("read as\n%s\nwritten as\n%s", a, b)
	}
	attr := func(name string, value any) func(g *rawGraph) {
		return func(g *rawGraph) {
			list := g.nodes[1].attrs
			list[slices.IndexFunc(list, func(a ir.Attr) bool { return a.Name == name })].Value = value
		}
	}
	own := func(list ...ir.Attr) func(g *rawGraph) { return attr("own", list) }
	body := func(change func(b *rawBody)) func(g *rawGraph) { return func(g *rawGraph) { change(&g.bodies[0]) } }
	half := func(b *rawBody) {
		for i := range b.nodes {
			b.nodes[i].typ.dtype = "f16"
		}
	}
	for _, c := range []struct {
		check  int
		what   string
		change func(g *rawGraph)
	}{
		{15, "a list of attributes in another", own(ir.Attr{Name: "a", Value: []ir.Attr{{Name: "b", Value: true}}})},
		{15, "a graph among the op's own attributes", own(ir.Attr{Name: "a", Value: rawRef(0)})},
		{15, "too many attributes", own(slices.Repeat([]ir.Attr{{Name: "a", Value: true}}, MaxAttrs+1)...)},
		{18, "an unknown element type", own(ir.Attr{Name: "a", Value: rawDType("f33")})},
		{26, "no element type", own(ir.Attr{Name: "a", Value: rawDType("")})},
		{26, "attributes out of order", own(ir.Attr{Name: "b", Value: true}, ir.Attr{Name: "a", Value: true})},
		{26, "an attribute twice", own(ir.Attr{Name: "a", Value: true}, ir.Attr{Name: "a", Value: true})},
		{26, "an attribute with a dot", own(ir.Attr{Name: "a.b", Value: true})},
		{22, "a bool for attributes", attr("own", true)},
		{22, "attributes for a bool", func(g *rawGraph) {
			g.nodes[1].op, g.nodes[1].in = "matmul", []int64{0, 0}
			g.nodes[1].attrs = []ir.Attr{{Name: "trans_a", Value: []ir.Attr{}}, {Name: "trans_b", Value: false}}
		}},
		{26, "a name without a dot", attr("name", "wave")},
		{26, "a name with capitals", attr("name", "acme.Wave")},
		{26, "no expansion", func(g *rawGraph) { attr("expansion", rawRef(-1))(g); g.bodies, g.nesting = nil, 0 }},
		{26, "a negative tolerance", attr("abs", -1.0)},
		{26, "operands of another element type", body(half)},
		{26, "a size out of the symbol's range", body(func(b *rawBody) { b.syms[0].Max = 15 })},
		{26, "more operands than inputs", func(g *rawGraph) { g.nodes[1].in = []int64{0, 0} }},
		{26, "another type of the result", func(g *rawGraph) { g.nodes[2].typ.shape[0] = ir.Named("M") }},
		{26, "a symbol that no operand has", body(func(b *rawBody) {
			b.syms = append(b.syms, ir.Sym{Name: "K", Max: 3})
		})},
		{26, "a custom op in an expansion", func(g *rawGraph) {
			b := rawBody{name: "outer", syms: g.bodies[0].syms, outputs: []rawOutput{{"y", 2}}}
			n, r := g.nodes[1], g.nodes[2]
			n.name, r.name, r.typ = "", "", g.bodies[0].nodes[2].typ
			n.attrs = slices.Clone(n.attrs)
			b.nodes = []rawNode{g.bodies[0].nodes[0], n, r}
			g.bodies, g.nesting = append(g.bodies, b), 2
			attr("expansion", rawRef(1))(g)
		}},
		{26, "a large expansion", body(func(b *rawBody) {
			for len(b.nodes) <= 256 {
				b.nodes = append(b.nodes, rawNode{op: "neg", in: []int64{0}, typ: b.nodes[0].typ})
			}
		})},
		{26, "a reshape that requires equal sizes", body(func(b *rawBody) {
			b.syms = append(b.syms, ir.Sym{Name: "K", Max: 64})
			b.nodes[0].typ.shape = ir.Shape{ir.Named("N")}
			typ := rawType{"f32", ir.Shape{ir.Named("K")}}
			b.nodes = append(b.nodes, rawNode{op: "reshape", in: []int64{0}, typ: typ})
		})},
	} {
		if _, err := DecodeProgram(encode(c.change)); !errors.Is(err, code.Verifier(c.check)) {
			code, _ := diag.CodeOf(err)
			t.Errorf("check %d, %s: %v %v", c.check, c.what, code, err)
		} else if strings.Contains(err.Error(), "BUG") {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}
