package op

import (
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// ExpandDef repeats a tensor along axes of size 1.
var ExpandDef = ir.Define(ir.Def[NoAttrs]{
	Name:     "expand",
	Doc:      "x broadcast to the declared shape: aligned at the right, each dim of x is 1 or equal to the declared one.",
	Operands: "x", Declared: true,
	Infer: func(s ir.Sig[NoAttrs]) (ir.Type, error) {
		x, y := s.In[0], s.Declared
		if x.DType != y.DType || x.Rank() > y.Rank() {
			return ir.Type{}, fmt.Errorf("%v cannot be expanded to %v; want equal element types and no smaller rank", x,
				y)
		}
		for i, d := range x.Shape {
			if e := y.Shape[y.Rank()-x.Rank()+i]; !d.Is(1) && d != e {
				return ir.Type{}, ir.Differ(d, e, "%v cannot be expanded to %v: axis %d of x is %v, neither 1 nor %v",
					x, y, i, d, e)
			}
		}
		return y, nil
	},
	Eval: func(_ NoAttrs, in []*tensor.Array, out *tensor.Array) error {
		at := [][]int{strides(in[0].Shape, out.Shape)}
		tensor.Walk(out.Shape, at, func(i int, p []int) { take(out, i, in[0], p[0]) })
		return nil
	},
	FLOPs: noFLOPs[NoAttrs],
	Tol:   exact[NoAttrs],
	Cases: func() []ir.Case[NoAttrs] {
		c := func(in, out ir.Type) ir.Case[NoAttrs] { return ir.Case[NoAttrs]{In: []ir.Type{in}, Out: out} }
		cases := []ir.Case[NoAttrs]{
			c(f32(), f32()), c(f32(), f32(5)), c(f32(1), f32(0)), c(f32(5), f32(3, 5)), c(f32(3, 1), f32(3, 5)),
			c(f32(2, 1, 3), f32(4, 2, 5, 3)),
			c(f32(1, 1, 1, 7), f32(2, 3, 2, 7)),
		}
		for _, d := range elementTypes() {
			cases = append(cases, c(ir.TypeOf(d, 3, 1), ir.TypeOf(d, 2, 3, 5)))
		}
		return cases
	},
})

// Expand adds x broadcast to shape.
func Expand(x *ir.Node, shape ir.Shape) *ir.Node {
	return x.Graph.AddDeclared(ExpandDef, NoAttrs{}, ir.Type{DType: x.Type.DType, Shape: shape}, x)
}

var _ = gradient(ExpandDef, func(n *ir.Node, _ NoAttrs, dy *ir.Node) []*ir.Node {
	return []*ir.Node{sumTo(dy, n.In[0].Type.Shape)}
})
