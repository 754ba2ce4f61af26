package op

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// RopeBackwardDef defines the gradient of rope.
var RopeBackwardDef = ir.Define(ir.Def[RopeAttrs]{
	Name: "rope_backward",
	Doc: "The gradient of rope (see there) with respect to x, given the gradient dy of its result. It turns " +
		"the pairs the other way, by minus the angle: (a, b) becomes (a*c + b*s, b*c - a*s). The operands and " +
		"attributes are those of rope, but dy contains only heads: heads and start are 0.",
	Operands: "dy, cos?, sin?, frequencies?, position?",
	Checked:  []ir.Checked{{Operand: 4, Safe: 0}},
	Infer: func(s ir.Sig[RopeAttrs]) (ir.Type, error) {
		if a := s.Attrs; a.Heads != 0 || a.Start != 0 {
			return ir.Type{}, fmt.Errorf("heads is %d and start %d; want 0: dy has nothing but heads", a.Heads, a.Start)
		}
		return s.Attrs.infer(s.In)
	},
	Eval:  func(a RopeAttrs, in []*tensor.Array, out *tensor.Array) error { return turnHeads(a, in, out, -1) },
	FLOPs: perElement[RopeAttrs](3),
	Tol:   rounded[RopeAttrs],
	Cases: func() []ir.Case[RopeAttrs] {
		return slices.DeleteFunc(ropeCases(), func(c ir.Case[RopeAttrs]) bool { return c.Attrs.Heads != 0 })
	},
})

// RopeBackward adds the gradient of x of Rope, given the gradient dy of its result. Heads and Start of the attributes
// must be 0.
func RopeBackward(dy *ir.Node, o RopeOperands, a RopeAttrs) *ir.Node {
	return dy.Graph.Add(RopeBackwardDef, a, dy, o.Cos, o.Sin, o.Frequencies, o.Position)
}

// A pair (a, b) turns by minus an angle if (a, -b) turns by the angle and the second element of the result is negated.
var _ = ir.Lower(RopeBackwardDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	a, dy := n.Attrs.(RopeAttrs), in[0]
	last := dy.Type.Shape[dy.Type.Rank()-1]
	i32 := func(v float64) *ir.Node { return Const(g, v, ir.TypeOf(dtype.I32)) }
	i := Mod(Iota(g, 0, ir.Type{DType: dtype.I32, Shape: ir.Shape{last}}), i32(float64(a.HeadDim)))
	rot := float64(a.Rotated())
	second := And(Ge(i, i32(rot/2)), Lt(i, i32(rot)))
	if a.Style == GPTJ {
		second = And(Eq(Mod(i, i32(2)), i32(1)), Lt(i, i32(rot)))
	}
	flip := func(x *ir.Node) *ir.Node { return Where(second, Neg(x), x) }
	return flip(Rope(flip(dy), RopeOperands{in[RopeCos], in[RopeSin], in[RopeFrequencies], in[RopePositions]}, a))
})

// The angles cannot be trained: there is no rule for the tables and frequencies.
var _ = ir.Gradient(RopeDef, func(n *ir.Node, dy []*ir.Node) ([]*ir.Node, error) {
	a := n.Attrs.(RopeAttrs)
	start := a.Start
	a.Heads, a.Start = 0, 0
	dx := RopeBackward(dy[0],
		RopeOperands{n.In[RopeCos], n.In[RopeSin], n.In[RopeFrequencies], n.In[RopePositions]}, a)
	shape := n.In[0].Type.Shape
	return []*ir.Node{padTo(dx, shape, len(shape)-1, start), RopeCos: ir.NoGradient, RopeSin: ir.NoGradient,
		RopeFrequencies: ir.NoGradient}, nil
})
