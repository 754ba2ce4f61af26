package op

import (
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// FlipAttrs are the attributes of flip.
type FlipAttrs struct {
	Axes []int `attr:"axes"` // ascending
}

// FlipDef reverses axes.
var FlipDef = ir.Define(ir.Def[FlipAttrs]{
	Name:     "flip",
	Doc:      "x with the order of the elements along each of the axes reversed.",
	Operands: "x",
	Infer: func(s ir.Sig[FlipAttrs]) (ir.Type, error) {
		return s.In[0], checkAxes(s.Attrs.Axes, s.In[0].Rank())
	},
	Eval: func(a FlipAttrs, in []*tensor.Array, out *tensor.Array) error {
		moved(out, in[0], func(axis, k, n int) int {
			if slices.Contains(a.Axes, axis) {
				return n - 1 - k
			}
			return k
		})
		return nil
	},
	FLOPs: noFLOPs[FlipAttrs],
	Tol:   exact[FlipAttrs],
	Cases: func() []ir.Case[FlipAttrs] {
		c := func(x ir.Type, axes ...int) ir.Case[FlipAttrs] {
			return ir.Case[FlipAttrs]{Attrs: FlipAttrs{axes}, In: []ir.Type{x}}
		}
		cases := []ir.Case[FlipAttrs]{
			c(f32(1), 0), c(f32(7), 0), c(f32(0, 3), 0), c(f32(3, 5), 0), c(f32(3, 5), 1), c(f32(3, 5), 0, 1),
			c(f32(2, 3, 4), 0, 2), c(f32(2, 3, 33), 1), c(f32(2, 3, 4)),
		}
		for _, d := range elementTypes() {
			cases = append(cases, c(ir.TypeOf(d, 3, 4), 1), c(ir.TypeOf(d, 3, 4), 0))
		}
		return cases
	},
})

// moved sets element k along an axis of out to element from(axis, k, n) of in, for all axes. n is the size of the axis.
func moved(out, in *tensor.Array, from func(axis, k, n int) int) {
	for i := range out.Len() {
		at, rest, stride := 0, i, 1
		for axis := len(out.Shape) - 1; axis >= 0; axis-- {
			n := out.Shape[axis]
			at += from(axis, rest%n, n) * stride
			rest /= n
			stride *= n
		}
		take(out, i, in, at)
	}
}

// Flip adds x with the given axes reversed.
func Flip(x *ir.Node, axes ...int) *ir.Node {
	return x.Graph.Add(FlipDef, FlipAttrs{sortedAxes(axes, x)}, x)
}

var _ = gradient(FlipDef, func(_ *ir.Node, a FlipAttrs, dy *ir.Node) []*ir.Node {
	return []*ir.Node{dy.Graph.Add(FlipDef, a, dy)}
})
