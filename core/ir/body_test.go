package ir_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

type applyAttrs struct {
	Body  *ir.Graph `attr:"body"`
	Other *ir.Graph `attr:"other"`
	Text  string    `attr:"text"`
}

// applyDef is a block that applies a graph to its operand, or returns the operand if it has no graph.
var applyDef = ir.Define(ir.Def[applyAttrs]{
	Name: "test_apply", Operands: "x", Doc: "Body applied to x.", Block: true,
	Infer: func(s ir.Sig[applyAttrs]) (ir.Type, error) {
		if s.Attrs.Body == nil {
			return s.In[0], nil
		}
		out, err := ir.CheckBody("body", s.Attrs.Body, s.In, s.Syms)
		if err != nil {
			return ir.Type{}, err
		}
		return out[0], nil
	},
	EvalBodies: func(a applyAttrs, run ir.RunBody, in []*tensor.Array, out *tensor.Array) error {
		y := in
		if a.Body != nil {
			var err error
			if y, err = run(a.Body, in); err != nil {
				return err
			}
		}
		copy(out.Floats, y[0].Floats)
		return nil
	},
})

var _ = ir.Lower(applyDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	if body := n.Attrs.(applyAttrs).Body; body != nil {
		return g.Inline(body, in, n.Name+".")[0]
	}
	return in[0]
})

const nested = `graph scale
sym N = 1..4
x = input : f32[N]
w = param : f32[]
y = mul x, w : f32[N]
top, at = top_k y {k=1} : f32[1], i32[1]
z = add y, top : f32[N]
return z=z

graph both
sym N = 1..4
x = input : f32[N]
y = test_apply x {body=@scale} : f32[N]
z = test_apply y {body=@scale} : f32[N]
return z=z

graph main
sym N = 1..4
x = input : f32[N]
b = test_apply x {body=@both} : f32[N]
w = param : f32[]
y = add b, w : f32[N]
return y=y
`

// TestBodies checks a graph whose attributes refer to graphs: which graphs these are, and that the reference gives the
// same for the graph as for its lowering. In the lowering, a param that several graphs have must occur once.
func TestBodies(t *testing.T) {
	g, err := ir.Parse(nested)
	if err == nil {
		err = g.Verify()
	}
	if err != nil {
		t.Fatal(err)
	}
	if b := g.Bodies(); g.Nesting() != 2 || len(b) != 2 || b[0].Name != "scale" || b[1].Name != "both" ||
		b[1].Nesting() != 1 {
		t.Errorf("bodies %v nest %d deep", b, g.Nesting())
	}
	lowered := g
	for lowered.Nesting() > 0 {
		lowered, err = lowered.Rebuild(
			func(out *ir.Graph, n *ir.Node, in []*ir.Node, _ func(*ir.Node) *ir.Node) *ir.Node {
				if n.Op == applyDef {
					return applyDef.LowerTo(out, n, in)[0]
				}
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := lowered.Verify(); err != nil {
		t.Fatalf("%v\n%s", err, lowered)
	}
	x := &tensor.Array{DType: dtype.F32, Shape: []int{3}, Floats: []float64{1, -2, 0.5}}
	w := &tensor.Array{DType: dtype.F32, Shape: []int{}, Floats: []float64{1.5}}
	params := func(string) (*tensor.Array, error) { return w, nil }
	want := []float64{1, -2, 0.5}
	for range 2 { // y = x*w, z = y + max y
		most := want[0] * 1.5
		for i := range want {
			want[i] *= 1.5
			most = max(most, want[i])
		}
		for i := range want {
			want[i] += most
		}
	}
	for _, g := range []*ir.Graph{g, lowered} {
		out, err := interp.Run(g, map[string]int64{"N": 3}, map[string]*tensor.Array{"x": x}, params)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range out["y"].Floats {
			if v != want[i]+1.5 {
				t.Errorf("%s: y[%d] is %v; want %v", g.Name, i, v, want[i]+1.5)
			}
		}
	}
}

// TestVerifyBodies checks that Verify finds the faults in a body and in the references to it.
func TestVerifyBodies(t *testing.T) {
	for want, breakIt := range map[string]func(scale, both, main *ir.Graph){
		"y: type is f32[2]": func(scale, _, _ *ir.Graph) {
			scale.Nodes[2].Type = ir.TypeOf(dtype.F32, 2)
		},
		"graph scale has no outputs":        func(scale, _, _ *ir.Graph) { scale.Outputs = nil },
		"refers to has no name":             func(scale, _, _ *ir.Graph) { scale.Name = "" },
		"graph both has a body of the same": func(_, both, main *ir.Graph) { main.Name = "both" },
		"test_apply: body: graph scale has 2 ": func(scale, _, _ *ir.Graph) {
			op.Input(scale, "v", ir.TypeOf(dtype.F32))
		},
		"s: op state has to do with a state": func(scale, _, _ *ir.Graph) {
			scale.AddDeclared(ir.StateDef, ir.StateAttrs{}, ir.TypeOf(dtype.F32, 2)).Named("s")
		},
		"two different graphs that attributes refer to are called scale": func(scale, both, _ *ir.Graph) {
			other, _ := ir.Parse(strings.Split(strings.Replace(nested, "mul", "sub", 1), "\n\n")[0])
			both.Nodes[2].Attrs = applyAttrs{Body: other}
		},
		"graph main nests graphs 17 deep; at most 16 ": func(scale, both, main *ir.Graph) {
			for i := range ir.MaxNesting - 1 {
				g := ir.NewGraph(fmt.Sprint("d", i), both.Syms...)
				x := op.Input(g, "x", both.Inputs()[0].Type)
				g.Return("y", g.Add(applyDef, applyAttrs{Body: both}, x))
				both = g
			}
			main.Nodes[1].Attrs = applyAttrs{Body: both}
		},
	} {
		g, err := ir.Parse(nested)
		if err != nil {
			t.Fatal(err)
		}
		b := g.Bodies()
		breakIt(b[0], b[1], g)
		if err := g.Verify(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

// TestParseAllBodies checks that ParseAll does not return graphs that attributes refer to.
func TestParseAllBodies(t *testing.T) {
	gs, err := ir.ParseAll(
		nested+"graph more\nsym N = 1..4\nx = input : f32[N]\ny = test_apply x {body=@both} : f32[N]\nreturn y=y\n",
		ir.Limits{})
	if err != nil || len(gs) != 2 || gs[0].Name != "main" || gs[1].Name != "more" {
		t.Fatal(gs, err)
	}
	for _, c := range []struct {
		limits ir.Limits
		want   string
	}{
		{ir.Limits{Graphs: 1, Bodies: 2, Nodes: 21}, ""}, // main has 4, both 3, and scale 7 twice
		{ir.Limits{Bodies: 1}, "line 10: has more than 1 graphs that attributes refer to"},
		{ir.Limits{Nodes: 20}, "line 22: y: has more than 20 nodes"},
	} {
		_, err := ir.ParseAll(nested, c.limits)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("%+v: %v; want %q", c.limits, err, c.want)
		}
	}
}
