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
	{Name: "attention-bshd",
		Match: attentionOf(
			op.BHSD, func(n *ir.Node) bool { return n.Is(op.TransposeDef) && slices.Equal(perm(n), headsFirst) }),
		To: func(c *rw.Context) *ir.Node {
			return op.Transpose(relayout(c, op.BSHD), headsFirst...)
		}},
	{Name: "attention-bse", Match: attentionOf(op.BSHD, splitsLast), To: func(c *rw.Context) *ir.Node {
		return op.Reshape(relayout(c, op.BSE), c.Root().Type.Shape)
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

// relayout adds the root again with another layout, on the operands of the transposes.
func relayout(c *rw.Context, layout string) *ir.Node {
	n := c.Root()
	a := n.Attrs.(op.AttentionAttrs)
	a.Layout = layout
	in := n.MapIn(c.Map)
	for i, x := range n.In[:3] {
		in[i] = c.Map(x.In[0])
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
