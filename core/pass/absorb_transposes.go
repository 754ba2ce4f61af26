package pass

import (
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	rw "github.com/rlx-go/rlx/core/rewrite"
)

// absorbTransposes removes transposes of operands if the op can read the operand as it is: matmul with trans_a and
// trans_b, attention with its layouts.
//
//	t = transpose w {perm=[1,0]}
//	y = matmul x, t              ->   y = matmul x, w {trans_b=true}
//
// Attention on transposed heads becomes attention on [B,S,H,D], or on packed [B,S,H*D] if the heads were split from
// that. Only views remain before and after it.
func absorbTransposes(c *context, g *ir.Graph) (*ir.Graph, error) { return c.rules(g, transposeRules) }

var transposeRules = []rw.Rule{
	{Name: "matmul-a", Match: rw.Op(op.MatMulDef, rw.As("t", rw.If(rw.Op(op.TransposeDef, rw.Any("a")), swapsLastTwo)),
		rw.Any("b")), To: func(c *rw.Context) *ir.Node {
		a := c.Root().Attrs.(op.MatMulAttrs)
		a.TransA = !a.TransA
		return op.MatMul(c.New("a"), c.New("b"), a)
	}},
	{Name: "matmul-b",
		Match: rw.Op(op.MatMulDef, rw.Any("a"), rw.As("t", rw.If(rw.Op(op.TransposeDef, rw.Any("b")), swapsLastTwo))),
		To: func(c *rw.Context) *ir.Node {
			a := c.Root().Attrs.(op.MatMulAttrs)
			a.TransB = !a.TransB
			return op.MatMul(c.New("a"), c.New("b"), a)
		}},
	{Name: "transpose-transpose", Match: simplifyRules[0].Match, To: mergeTransposes},
	{Name: "transpose-identity", Match: simplifyRules[1].Match, To: operand},
	{Name: "rows-down", Match: rw.Op(op.TransposeDef), To: rowsDown},
	{Name: "rows-up", Match: rw.Op(op.TransposeDef), To: rowsUp},
	{Name: "transpose-reshape-transpose", Match: twoTransposes, To: mergeViews},
	{Name: "reshape-reshape", Match: rw.Op(op.ReshapeDef, rw.Op(op.ReshapeDef, rw.Any("x"))), To: toReshape},
	{Name: "same-type", Match: rw.Op(op.ReshapeDef, rw.Any("x")), To: operand},
	{Name: "axes-before-transpose", Match: rw.Op(op.ReshapeDef, rw.Once(rw.Op(op.TransposeDef))), To: mergeAxes},
	{Name: "norm-transpose", Match: rw.OneOf(rw.Op(op.L2NormDef), rw.Op(op.RmsNormDef), rw.Op(op.LayerNormDef)),
		To: normAcross},
	{Name: "rope-bshd", Match: ropeOf(op.BHSD, func(n *ir.Node) bool {
		return n.Is(op.TransposeDef) && slices.Equal(perm(n), headsFirst)
	}), To: func(c *rw.Context) *ir.Node { return op.Transpose(relayoutRope(c, op.BSHD), headsFirst...) }},
	{Name: "rope-bse", Match: ropeOf(op.BSHD, splitsLast), To: func(c *rw.Context) *ir.Node {
		return op.Reshape(relayoutRope(c, op.BSE), c.Root().Type.Shape)
	}},
	{Name: "narrow-reshape-transpose", Match: rw.If(rw.Op(op.NarrowDef, rw.Op(op.ReshapeDef, rw.Op(op.TransposeDef))),
		narrowsSame), To: func(c *rw.Context) *ir.Node {
		n := c.Root()
		a := n.Attrs.(op.NarrowAttrs)
		return op.Reshape(op.Narrow(c.Map(n.In[0].In[0]), a.Axis, a.Start, a.Len), n.Type.Shape)
	}},
	{Name: "narrow-transpose", Match: rw.If(rw.Op(op.NarrowDef, rw.Op(op.TransposeDef)), takesOneOf),
		To: func(c *rw.Context) *ir.Node {
			n := c.Root()
			a, t := n.Attrs.(op.NarrowAttrs), n.In[0]
			return op.Reshape(op.Narrow(c.Map(t.In[0]), perm(t)[a.Axis], a.Start, a.Len), n.Type.Shape)
		}},
	{Name: "attention-bshd", Match: attentionOf(op.BHSD, turnsHeads), To: func(c *rw.Context) *ir.Node {
		return op.Transpose(relayout(c, op.BSHD, func(x *ir.Node) *ir.Node {
			if x.Is(op.TransposeDef) {
				return c.Map(x.In[0])
			}
			y := x.In[0].In[0] // [S,H,D]
			return op.Reshape(c.Map(y), append(ir.Shape{ir.Static(1)}, y.Type.Shape...))
		}), headsFirst...)
	}},
	{Name: "attention-bse", Match: attentionOf(op.BSHD, splitsLast), To: func(c *rw.Context) *ir.Node {
		y := relayout(c, op.BSE, func(x *ir.Node) *ir.Node { return c.Map(x.In[0]) })
		return op.Reshape(y, c.Root().Type.Shape)
	}},
}

// headsFirst exchanges sequence and heads. It is its own inverse.
var headsFirst = []int{0, 2, 1, 3}

func swapsLastTwo(n *ir.Node) bool {
	p := perm(n)
	for i, a := range p[:max(len(p)-2, 0)] {
		if a != i {
			return false
		}
	}
	return len(p) >= 2 && p[len(p)-2] == len(p)-1
}

// turnsHeads reports whether n is the heads of [B,S,H,D] or, in a batch of one, of [S,H,D].
func turnsHeads(n *ir.Node) bool {
	if n.Is(op.TransposeDef) {
		return slices.Equal(perm(n), headsFirst)
	}
	return n.Is(op.ReshapeDef) && n.In[0].Is(op.TransposeDef) && slices.Equal(perm(n.In[0]), []int{1, 0, 2}) &&
		n.Type.Shape[0].Is(1) && n.Type.Shape[1:].Equal(n.In[0].Type.Shape)
}

// narrowsSame reports whether n narrows an axis that the reshape before it leaves as it is.
func narrowsSame(n *ir.Node) bool {
	end := n.Attrs.(op.NarrowAttrs).Axis + 1
	s := n.In[0].In[0].Type.Shape
	return len(s) >= end && s[:end].Equal(n.In[0].Type.Shape[:end])
}

// takesOneOf reports whether n takes one index of an axis, and the transpose before it moves only this axis and axes of
// 1. Then n is a part of the operand in the same order.
func takesOneOf(n *ir.Node) bool {
	a, t := n.Attrs.(op.NarrowAttrs), n.In[0]
	axis := perm(t)[a.Axis]
	shape := slices.Clone(t.In[0].Type.Shape)
	shape[axis] = ir.Static(1)
	return a.Len == 1 && onlyOnes(shape, perm(t))
}

// splitsLast reports whether n reshapes [B,S,H*D] into heads.
func splitsLast(n *ir.Node) bool {
	x := n.In
	return n.Is(op.ReshapeDef) && x[0].Type.Rank() == 3 && n.Type.Rank() == 4 &&
		x[0].Type.Shape[:2].Equal(n.Type.Shape[:2])
}

// attentionOf matches attention with the given layout if operand is true for q, k and v.
func attentionOf(layout string, operand func(*ir.Node) bool) rw.Pattern {
	return rw.If(rw.Op(op.AttentionDef), func(n *ir.Node) bool {
		return n.Attrs.(op.AttentionAttrs).Layout == layout &&
			!slices.ContainsFunc(n.In[:3], func(x *ir.Node) bool { return !operand(x) })
	})
}

// relayout adds the root again with another layout. operand returns a new operand for q, k or v.
func relayout(c *rw.Context, layout string, operand func(x *ir.Node) *ir.Node) *ir.Node {
	n := c.Root()
	a := n.Attrs.(op.AttentionAttrs)
	a.Layout = layout
	in := n.MapIn(c.Map)
	for i, x := range n.In[:3] {
		in[i] = operand(x)
	}
	return c.Out.Add(op.AttentionDef, a, in...)
}

// ropeOf matches rope with the given layout if operand is true for x.
func ropeOf(layout string, operand func(*ir.Node) bool) rw.Pattern {
	return rw.If(rw.Op(op.RopeDef), func(n *ir.Node) bool {
		return n.Attrs.(op.RopeAttrs).Layout == layout && operand(n.In[0])
	})
}

// relayoutRope adds the root again with another layout, on the operand of the transpose or reshape.
func relayoutRope(c *rw.Context, layout string) *ir.Node {
	n := c.Root()
	a := n.Attrs.(op.RopeAttrs)
	a.Layout = layout
	in := n.MapIn(c.Map)
	in[0] = c.Map(n.In[0].In[0])
	return c.Out.Add(op.RopeDef, a, in...)
}
