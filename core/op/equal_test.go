package op_test

import (
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

// TestEqualSizes checks ops that need two equal sizes that may differ. The graph states the equality once, by reshapes.
// Runs with other sizes are refused, with both sizes in the error, and runs with equal sizes give the same as static
// shapes.
func TestEqualSizes(t *testing.T) {
	in := func(g *ir.Graph, name, typ string) *ir.Node { return op.Input(g, name, ir.MustType(typ)) }
	for name, c := range map[string]struct {
		build     func(g *ir.Graph) *ir.Node
		want      string // type of the result
		reshapes  int
		good, bad map[string]int64
		err       string
	}{
		"add": {func(g *ir.Graph) *ir.Node { return op.Add(in(g, "x", "f32[N,3]"), in(g, "y", "f32[M,3]")) },
			"f32[N,3]", 1, sizes(2, 2, 1), sizes(2, 4, 1), "sizes M = 4 and N = 2 must be equal"},
		"add the other way round": {
			func(g *ir.Graph) *ir.Node { return op.Add(in(g, "y", "f32[M,3]"), in(g, "x", "f32[N,3]")) },
			"f32[N,3]", 1, sizes(2, 2, 1), sizes(2, 4, 1), "sizes M = 4 and N = 2 must be equal"},
		"add a number": {func(g *ir.Graph) *ir.Node { return op.Add(in(g, "x", "f32[N,3]"), in(g, "y", "f32[4,1]")) },
			"f32[4,3]", 1, sizes(4, 1, 1), sizes(2, 1, 1), "sizes N = 2 and 4 must be equal"},
		"two axes": {func(g *ir.Graph) *ir.Node { return op.Max(in(g, "x", "f32[2*N,S]"), in(g, "y", "f32[M+1,3]")) },
			"f32[M+1,3]", 2, sizes(2, 3, 3), sizes(2, 3, 4), "sizes S = 4 and 3 must be equal"},
		"where": {func(g *ir.Graph) *ir.Node {
			return op.Where(in(g, "c", "bool[S]"), in(g, "x", "f32[2,N]"), in(g, "y", "f32[M]"))
		}, "f32[2,N]", 2, sizes(3, 3, 3), sizes(3, 3, 4), "sizes N = 3 and S = 4 must be equal"},
		"matmul": {func(g *ir.Graph) *ir.Node {
			return op.MatMul(in(g, "x", "f32[S,N]"), in(g, "y", "f32[4,5]"), op.MatMulAttrs{})
		},
			"f32[S,5]", 1, sizes(4, 1, 3), sizes(5, 1, 3), "sizes N = 5 and 4 must be equal"},
		"matmul of batches": {func(g *ir.Graph) *ir.Node {
			return op.MatMul(in(g, "x", "f32[N,2,M]"), in(g, "y", "f32[S,4,M]"), op.MatMulAttrs{TransB: true})
		}, "f32[N,2,4]", 1, sizes(4, 3, 4), sizes(4, 3, 5), "sizes N = 4 and S = 5 must be equal"},
		"concat": {func(g *ir.Graph) *ir.Node { return op.Concat(0, in(g, "x", "f32[S,N]"), in(g, "y", "f32[2,M]")) },
			"f32[S+2,N]", 1, sizes(4, 4, 3), sizes(4, 5, 3), "sizes M = 5 and N = 4 must be equal"},
		"expand": {
			func(g *ir.Graph) *ir.Node { return op.Expand(in(g, "x", "f32[M,1]"), ir.MustType("f32[2,N,3]").Shape) },
			"f32[2,N,3]", 1, sizes(4, 4, 1), sizes(4, 5, 1), "sizes M = 5 and N = 4 must be equal"},
		"layer_norm": {func(g *ir.Graph) *ir.Node {
			return op.LayerNorm(in(g, "x", "f32[S,N]"), in(g, "gamma", "f32[4]"), in(g, "beta", "f32[4]"), 1)
		}, "f32[S,4]", 1, sizes(4, 1, 2), sizes(3, 1, 2), "sizes N = 3 and 4 must be equal"},
		"attention": {func(g *ir.Graph) *ir.Node {
			return op.Attention(in(g, "q", "f32[N,2,4]"), in(g, "k", "f32[M,S,4]"), in(g, "v", "f32[M,S,4]"),
				op.AttentionOperands{}, op.AttentionAttrs{Heads: 2, Layout: op.BSE})
		}, "f32[N,2,4]", 2, sizes(2, 2, 3), sizes(2, 3, 3), "sizes M = 3 and N = 2 must be equal"},
		"conv2d": {func(g *ir.Graph) *ir.Node {
			return op.Conv2D(in(g, "x", "f32[S,N,3,3]"), in(g, "w", "f32[4,2,3,3]"), nil, op.ConvAttrs{Layout: op.NCHW})
		}, "f32[S,4,1,1]", 1, sizes(2, 1, 1), sizes(3, 1, 1), "sizes N = 3 and 2 must be equal"},
		"even": {func(g *ir.Graph) *ir.Node {
			return op.Reshape(in(g, "x", "f32[N,3]"), ir.Shape{ir.Static(-1), ir.Static(2), ir.Static(3)})
		}, "f32[N/2,2,3]", 1, sizes(4, 1, 1), sizes(3, 1, 1), "sizes N = 3 and 2*(N/2) = 2 must be equal"},
		"twice the same": {func(g *ir.Graph) *ir.Node {
			x, y := in(g, "x", "f32[N]"), in(g, "y", "f32[M]")
			return op.Mul(op.Add(x, y), op.Sub(y, x))
		}, "f32[N]", 2, sizes(3, 3, 1), sizes(3, 4, 1), "sizes M = 4 and N = 3 must be equal"},
	} {
		t.Run(name, func(t *testing.T) {
			g := ir.NewGraph("g", ir.Sym{Name: "N", Min: 1, Max: 8}, ir.Sym{Name: "M", Min: 1, Max: 9},
				ir.Sym{Name: "S", Min: 1, Max: 10})
			g.Return("y", c.build(g))
			if err := g.Err(); err != nil {
				t.Fatal(err)
			}
			if err := g.Verify(); err != nil {
				t.Fatal(err)
			}
			if got := g.Outputs[0].Node.Type.String(); got != c.want {
				t.Errorf("type is %s; want %s", got, c.want)
			}
			back, err := ir.Parse(g.String())
			if err != nil || back.String() != g.String() {
				t.Errorf("reads as %v (%v)\n%v", back, err, g)
			}
			reshapes := 0
			for _, n := range g.Nodes {
				if n.Is(op.ReshapeDef) {
					reshapes++
				}
			}
			if reshapes != c.reshapes || len(g.Requires()) == 0 || len(g.Requires()) > c.reshapes {
				t.Errorf("%d reshapes and requirements %v\n%v", reshapes, g.Requires(), g)
			}
			run := func(g *ir.Graph, syms, at map[string]int64) (*tensor.Array, error) {
				inputs := map[string]*tensor.Array{}
				for _, n := range g.Inputs() {
					x := tensor.NewArray(n.Type.DType, n.Type.Shape.Eval(at)...)
					for i := range x.Floats {
						x.Floats[i] = float64(i%5) - 2
					}
					inputs[n.Name] = x
				}
				out, err := interp.Run(g, syms, inputs, nil)
				return out["y"], err
			}
			if _, err := run(g, c.bad, c.bad); err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%v: %v; want %s", c.bad, err, c.err)
			}
			got, err := run(g, c.good, c.good)
			if err != nil {
				t.Fatal(err)
			}
			static, to := ir.NewGraph("static"), map[*ir.Node]*ir.Node{}
			for _, n := range g.Nodes {
				var operands []*ir.Node
				for _, x := range n.In {
					operands = append(operands, to[x])
				}
				to[n] = static.AddDeclared(n.Op, n.Attrs, n.Type.At(c.good), operands...).Named(n.Name)
			}
			static.Return("y", to[g.Outputs[0].Node])
			want, err := run(static, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := interp.Compare(got, want, ir.Tolerance{}); err != nil {
				t.Error(err)
			}
		})
	}
}

func sizes(n, m, s int64) map[string]int64 { return map[string]int64{"N": n, "M": m, "S": s} }

// TestUnequalSizes checks that building a graph fails if sizes cannot be equal.
func TestUnequalSizes(t *testing.T) {
	for _, types := range [][2]string{{"f32[N]", "f32[9]"}, {"f32[2*N]", "f32[3]"}, {"f32[N]", "f32[N+1]"},
		{"f32[N]", "f32[M+8]"}, {"f32[2*N]", "f32[2*M+1]"}} {
		g := ir.NewGraph("g", ir.Sym{Name: "N", Min: 1, Max: 8}, ir.Sym{Name: "M", Min: 1, Max: 9})
		op.Add(op.Input(g, "x", ir.MustType(types[0])), op.Input(g, "y", ir.MustType(types[1])))
		if err := g.Err(); err == nil || !strings.Contains(err.Error(), "do not broadcast") {
			t.Errorf("%v: %v", types, err)
		}
	}
	g := ir.NewGraph("g", ir.Sym{Name: "N", Min: 1, Max: 8})
	op.Reshape(op.Input(g, "x", ir.TypeOf(dtype.F32, 7)), ir.Shape{ir.MustDim("2*N")})
	if g.Err() == nil {
		t.Error("7 elements are read as an even number of them")
	}
}
