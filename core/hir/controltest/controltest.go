// Package controltest makes random programs of nested control flow, for tests.
package controltest

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/hir"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// Random returns a graph of nested control flow with the inputs x f32[3], y f32[3] and i i32[]. Some of its indices are
// out of range.
func Random(seed uint64) (*ir.Graph, error) {
	r := &maker{rng: rand.New(rand.NewPCG(seed, 1))}
	g := ir.NewGraph("main")
	return g, g.Build(func() {
		for k, n := range r.ops(g, r.inputs(g), 3) {
			g.Return(fmt.Sprint("o", k), n)
		}
	})
}

func f32(dims ...int64) ir.Type { return ir.TypeOf(dtype.F32, dims...) }

// maker makes graphs with the inputs x f32[3], y f32[3] and i i32[], and outputs of these types.
type maker struct {
	rng   *rand.Rand
	count int
}

func (r *maker) inputs(g *ir.Graph) []*ir.Node {
	return []*ir.Node{op.Input(g, "x", f32(3)), op.Input(g, "y", f32(3)), op.Input(g, "i", ir.TypeOf(dtype.I32))}
}

// graph makes a body with that many outputs. 0 stands for one bool.
func (r *maker) graph(depth, outputs int) *ir.Graph {
	r.count++
	g := ir.NewGraph(fmt.Sprint("g", r.count))
	if err := g.Build(func() {
		out := r.ops(g, r.inputs(g), depth)
		if outputs == 0 {
			g.Return("c", r.flag(g, out))
		}
		for k, n := range out[:outputs] {
			g.Return(fmt.Sprint("o", k), n)
		}
	}); err != nil {
		panic(err)
	}
	return g
}

func (r *maker) flag(g *ir.Graph, v []*ir.Node) *ir.Node {
	if r.rng.IntN(2) == 0 {
		return op.Lt(v[2], op.Const(g, float64(r.rng.IntN(8)), ir.TypeOf(dtype.I32)))
	}
	return op.Any(op.Gt(v[0], v[1]), false, 0)
}

func (r *maker) ops(g *ir.Graph, in []*ir.Node, depth int) []*ir.Node {
	v := slices.Clone(in)
	for range 2 + r.rng.IntN(4) {
		k := r.rng.IntN(2)
		switch c := r.rng.IntN(9); {
		case c < 2:
			v[k] = op.Tanh(op.Add(v[0], v[1]))
		case c < 3:
			v[k] = op.Div(v[0], v[1]) // may be infinite or NaN
		case c < 4:
			v[2] = op.Add(v[2], op.Const(g, float64(r.rng.IntN(5)-1), v[2].Type))
		case c < 5:
			at := v[2]
			if depth == 3 || r.rng.IntN(2) == 0 {
				at = op.Remainder(at, op.Const(g, 3, at.Type))
			}
			v[k] = op.Add(v[k], op.Gather(v[1-k], at, 0))
		case depth == 0:
		case c < 7:
			p := r.flag(g, v)
			v[k] = hir.If(p, r.graph(depth-1, 1), r.graph(depth-1, 1), v...)
		case c < 8:
			a := hir.WhileAttrs{Cond: r.graph(0, 0), Body: r.graph(depth-1, 3),
				MaxIterations: 1 + r.rng.IntN(3), Result: k}
			v[k] = hir.While(a, v...)
		default:
			a := hir.ScanAttrs{Body: r.graph(depth-1, 2), Carried: 2, Steps: 1, Result: k}
			v[k] = hir.Scan(a, v[0], v[1], op.Add(v[2], op.Iota(g, 0, ir.TypeOf(dtype.I32, 2))))
		}
		if v[k].Name == "" && r.rng.IntN(3) == 0 {
			v[k].Named(fmt.Sprint("n", v[k].ID))
		}
	}
	return v
}
