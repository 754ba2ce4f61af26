package ir_test

import (
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// TestBuilderKeepsFirstError checks that builders need to check errors only once, at the end.
func TestBuilderKeepsFirstError(t *testing.T) {
	g := ir.NewGraph("g")
	x := op.Input(g, "x", ir.TypeOf(dtype.F32, 2, 3))
	y := op.Softmax(op.MatMul(x, x, op.MatMulAttrs{}), 5) // both are wrong
	g.Return("y", op.Add(y, x))
	if err := g.Err(); err == nil || !strings.HasPrefix(err.Error(), "matmul: operands") {
		t.Errorf("error is %v", err)
	}
	if g.Verify() == nil {
		t.Error("Verify passes")
	}
	other := ir.NewGraph("other")
	op.Add(op.Input(other, "x", ir.TypeOf(dtype.F32)), x)
	if err := other.Err(); err == nil || !strings.Contains(err.Error(), "operand b is not a node of this graph") {
		t.Errorf("error is %v", err)
	}
}

// TestVerifyCatches checks that Verify detects wrong values in every field of a node that a pass could break.
func TestVerifyCatches(t *testing.T) {
	for name, breakIt := range map[string]func(g *ir.Graph){
		"type":         func(g *ir.Graph) { g.Nodes[1].Type = ir.TypeOf(dtype.F32, 3, 2) },
		"number":       func(g *ir.Graph) { g.Nodes[1].ID = 7 },
		"graph":        func(g *ir.Graph) { g.Nodes[1].Graph = ir.NewGraph("") },
		"order":        func(g *ir.Graph) { g.Nodes[1].In[0] = g.Nodes[2] },
		"operands":     func(g *ir.Graph) { g.Nodes[2].In = g.Nodes[2].In[:1] },
		"attributes":   func(g *ir.Graph) { g.Nodes[1].Attrs = op.SoftmaxAttrs{Axis: 2} },
		"kind":         func(g *ir.Graph) { g.Nodes[1].Attrs = op.NoAttrs{} },
		"name twice":   func(g *ir.Graph) { g.Nodes[1].Name = "x" },
		"name":         func(g *ir.Graph) { g.Nodes[1].Name = "a b" },
		"graph name":   func(g *ir.Graph) { g.Name = "a=b" },
		"symbol":       func(g *ir.Graph) { g.Syms = nil },
		"range":        func(g *ir.Graph) { g.Syms[0].Min = 9 },
		"output":       func(g *ir.Graph) { g.Outputs[0].Node = &ir.Node{ID: 0} },
		"output name":  func(g *ir.Graph) { g.Outputs[0].Name = "" },
		"output twice": func(g *ir.Graph) { g.Return("z", g.Nodes[0]) },
		"no outputs":   func(g *ir.Graph) { g.Outputs = nil },
		"dead operand": func(g *ir.Graph) { n := *g.Nodes[0]; g.Nodes[1].In[0] = &n },
	} {
		g := ir.NewGraph("g", ir.Sym{Name: "N", Min: 1, Max: 8})
		x := op.Input(g, "x", ir.Type{DType: dtype.F32, Shape: ir.Shape{ir.Named("N"), ir.Static(3)}})
		g.Return("z", op.Add(op.Softmax(x, -1), x))
		if err := g.Verify(); err != nil {
			t.Fatal(err)
		}
		if breakIt(g); g.Verify() == nil {
			t.Errorf("%s: not noticed", name)
		}
	}
}

// TestRebuild checks that Rebuild replaces nodes, keeps names and inputs, and drops what no output needs.
func TestRebuild(t *testing.T) {
	g, err := ir.Parse(`graph g
x = input : f32[2]
unused = input : f32[2]
dead = neg x : f32[2]
a = neg x : f32[2]
b = neg a : f32[2]
c = relu b : f32[2]
return c=c, b=b
`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := g.Rebuild(func(out *ir.Graph, n *ir.Node, in []*ir.Node, lookup func(*ir.Node) *ir.Node) *ir.Node {
		if n.Is(op.NegDef) && n.In[0].Is(op.NegDef) {
			return lookup(n.In[0].In[0]) // -(-x) is x
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `graph g
x = input : f32[2]
unused = input : f32[2]
c = relu x : f32[2]
return c=c, b=x
`
	if got.String() != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if err := got.Verify(); err != nil {
		t.Error(err)
	}
	if err := g.Verify(); err != nil {
		t.Errorf("the old graph: %v", err)
	}
}

func TestUseCounts(t *testing.T) {
	g, err := ir.Parse("x = input : f32[2]\ny = mul x, x : f32[2]\nreturn y=y, x=x")
	if err != nil {
		t.Fatal(err)
	}
	if c := g.UseCounts(); c[0] != 3 || c[1] != 1 {
		t.Errorf("uses are %v; want 3 of x (one as output) and 1 of y", c)
	}
}

// TestBuild checks that a builder ends at the first error and never sees a node without a type, also in Rebuild and in
// nested builders, and that other panics of a builder are not caught.
func TestBuild(t *testing.T) {
	g := ir.NewGraph("g")
	x := op.Input(g, "x", ir.TypeOf(dtype.F32, 2, 3))
	after := false
	err := g.Build(func() {
		inner := g.Build(func() {
			y := op.Reshape(x, ir.ShapeOf(7))
			_ = y.Type.Shape[0]
			after = true
		})
		if inner == nil {
			t.Error("the inner builder reports no error")
		}
		op.Neg(x)
		after = true
	})
	if err == nil || err != g.Err() || !strings.Contains(err.Error(), "reshape") || after {
		t.Errorf("error %v, graph's %v; went on: %v", err, g.Err(), after)
	}
	if err := g.Build(func() { after = true }); err == nil || after {
		t.Errorf("a graph with an error is built further (%v)", err)
	}

	h := ir.NewGraph("h")
	h.Return("y", op.Neg(op.Input(h, "x", ir.TypeOf(dtype.F32, 2, 3))))
	_, err = h.Rebuild(func(_ *ir.Graph, n *ir.Node, in []*ir.Node, _ func(*ir.Node) *ir.Node) *ir.Node {
		if n.Op.Name != "neg" {
			return nil
		}
		return op.Reshape(in[0], op.Reshape(in[0], ir.ShapeOf(7)).Type.Shape[:1])
	})
	if err == nil || !strings.Contains(err.Error(), "reshape") {
		t.Errorf("Rebuild: %v", err)
	}
	defer func() {
		if recover() != "its own" {
			t.Error("a builder's panic was lost")
		}
	}()
	_ = h.Build(func() { panic("its own") })
}

// split returns a graph that splits x in two. The second half is read twice, the first is not read.
func split(t *testing.T) *ir.Graph {
	t.Helper()
	g, err := ir.Parse(`graph g
x = input : f32[4]
a, b = split x {parts=2} : f32[2], f32[2]
c = add b, b : f32[2]
return c=c, x=x
`)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestSeveralResults checks that an op with several results is a node without a value followed by one node for each
// result.
func TestSeveralResults(t *testing.T) {
	g := split(t)
	tuple, a, b := g.Nodes[1], g.Nodes[2], g.Nodes[3]
	if len(g.Nodes) != 5 || !tuple.Op.Tuple || a.Op != ir.ResultDef || b.Op != ir.ResultDef ||
		!tuple.Type.Equal(ir.Type{}) || !b.Type.Equal(ir.TypeOf(dtype.F32, 2)) {
		t.Fatalf("nodes are %v", g.Nodes)
	}
	if by, k := b.Maker(); by != tuple || k != 1 {
		t.Errorf("b is result %d of %v", k, by)
	}
	if by, k := g.Nodes[0].Maker(); by != g.Nodes[0] || k != 0 {
		t.Errorf("x is result %d of %v", k, by)
	}
	if v := tuple.Values(); len(v) != 2 || v[0] != a || v[1] != b || g.Nodes[0].Values()[0] != g.Nodes[0] {
		t.Errorf("values are %v", v)
	}
	if c := g.UseCounts(); c[2] != 0 || c[3] != 2 {
		t.Errorf("uses are %v", c)
	}
	if tuple.Label() != "a,b" {
		t.Errorf("label is %s", tuple.Label())
	}
	// The results stay together although one is unused, and are dropped together.
	if got, err := g.Rebuild(nil); err != nil || got.String() != g.String() {
		t.Errorf("rebuilt: %v\n%s", err, got)
	}
	g.Outputs = g.Outputs[1:]
	if got, err := g.Rebuild(nil); err != nil || len(got.Nodes) != 1 {
		t.Errorf("without c: %v\n%s", err, got)
	}
}

// TestVerifyCatchesTuples checks that Verify detects everything about an op with several results that a pass could
// break.
func TestVerifyCatchesTuples(t *testing.T) {
	for name, breakIt := range map[string]func(g *ir.Graph){
		"type":          func(g *ir.Graph) { g.Nodes[1].Type = ir.TypeOf(dtype.F32, 2) },
		"name":          func(g *ir.Graph) { g.Nodes[1].Name = "t" },
		"result types":  func(g *ir.Graph) { g.Nodes[1].Results[1] = ir.TypeOf(dtype.F32, 3) },
		"fewer results": func(g *ir.Graph) { g.Nodes[1].Results = g.Nodes[1].Results[:1] },
		"result type":   func(g *ir.Graph) { g.Nodes[3].Type = ir.TypeOf(dtype.F32, 3) },
		"result index":  func(g *ir.Graph) { g.Nodes[3].Attrs = ir.ResultAttrs{Index: 0} },
		"index below":   func(g *ir.Graph) { g.Nodes[2].Attrs = ir.ResultAttrs{Index: -1} },
		"index past":    func(g *ir.Graph) { g.Nodes[3].Attrs = ir.ResultAttrs{Index: 2} },
		"other operand": func(g *ir.Graph) { g.Nodes[2].In = []*ir.Node{g.Nodes[0]} },
		"no operand":    func(g *ir.Graph) { g.Nodes[2].In = nil },
		"order":         func(g *ir.Graph) { n := g.Nodes; n[2], n[3], n[2].ID, n[3].ID = n[3], n[2], 3, 2 },
		"reads a tuple": func(g *ir.Graph) { g.Nodes[4].In = []*ir.Node{g.Nodes[1], g.Nodes[3]} },
		"returns one":   func(g *ir.Graph) { g.Outputs[0].Node = g.Nodes[1] },
		"another op": func(g *ir.Graph) {
			n := g.Nodes[3]
			n.Op, n.Attrs, n.In = op.NegDef, op.NoAttrs{}, []*ir.Node{g.Nodes[2]}
		},
		"results of one": func(g *ir.Graph) { g.Nodes[0].Results = []ir.Type{g.Nodes[0].Type} },
		"last lacks":     func(g *ir.Graph) { g.Nodes, g.Outputs = g.Nodes[:3], g.Outputs[1:] },
	} {
		g := split(t)
		if err := g.Verify(); err != nil {
			t.Fatal(err)
		}
		if breakIt(g); g.Verify() == nil {
			t.Errorf("%s: not noticed", name)
		}
	}
}

// TestSeveralResultsErrors checks that builders keep the first error, and get as many nodes as they asked for.
func TestSeveralResultsErrors(t *testing.T) {
	for name, add := range map[string]func(g *ir.Graph, x *ir.Node) int{
		"split: has several results; AddResults adds it": func(g *ir.Graph, x *ir.Node) int {
			g.Add(op.SplitDef, op.SplitAttrs{Parts: 2}, x)
			return 1
		},
		"split: has 2 results, not 3": func(g *ir.Graph, x *ir.Node) int {
			return len(g.AddResults(3, op.SplitDef, op.SplitAttrs{Parts: 2}, x)) - 2
		},
		"split: axis 1 is out of range": func(g *ir.Graph, x *ir.Node) int { return len(op.Split(x, 1, 2)) - 1 },
		"split: parts is -3":            func(g *ir.Graph, x *ir.Node) int { return len(op.Split(x, 0, -3)) + 1 },
		"neg: has one result, not 2": func(g *ir.Graph, x *ir.Node) int {
			return len(g.AddResults(2, op.NegDef, op.NoAttrs{}, x)) - 1
		},
		"result: index 0 and position": func(g *ir.Graph, x *ir.Node) int {
			op.Split(x, 0, 2)
			g.Add(ir.ResultDef, ir.ResultAttrs{}, g.Nodes[1])
			return 1
		},
		"neg: operand x (%2,%3) is the node of an op with several results": func(g *ir.Graph, x *ir.Node) int {
			op.Split(x, 0, 2)
			op.Neg(g.Nodes[1])
			return 1
		},
	} {
		g := ir.NewGraph("g")
		n := add(g, op.Input(g, "x", ir.TypeOf(dtype.F32, 4)))
		if err := g.Err(); err == nil || !strings.HasPrefix(err.Error(), name) || n != 1 {
			t.Errorf("%d results, error %v; want %q", n, err, name)
		}
	}
}
