package pass

import (
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	rw "github.com/rlx-go/rlx/core/rewrite"
)

// absorbParts lets attention and rope read their heads from a packed product. Otherwise the parts of the product would
// be copied.
//
//	q = narrow x {axis=2, len=E}                  x [B,S,3*E]
//	k = narrow x {axis=2, len=E, start=E}
//	v = narrow x {axis=2, len=E, start=2*E}   ->
//	y = attention q, k, v {heads, layout="bse"}   y = attention x, x, x {heads, layout="bse", packed=[0,E,2*E]}
//
// A part may also be an index of an axis, as in [B,S,3,H,D], and heads may have their own axis.
func absorbParts(c *context, g *ir.Graph) (*ir.Graph, error) { return c.rules(g, partRules) }

var partRules = []rw.Rule{
	{Name: "attention-parts", Match: rw.If(rw.Op(op.AttentionDef), attentionOfParts), To: func(c *rw.Context) *ir.Node {
		n := c.Root()
		a := n.Attrs.(op.AttentionAttrs)
		s, _ := a.SizesOf(n.InTypes())
		a.Layout, a.HeadDim, a.Packed = op.BSE, int(s.D), make([]int, 3)
		in := n.MapIn(c.Map)
		for i, x := range n.In[:3] {
			in[i], a.Packed[i] = rowsOf(c, x)
		}
		return op.Reshape(c.Out.Add(op.AttentionDef, a, in...), n.Type.Shape)
	}},
	{Name: "rope-part", Match: rw.If(rw.Op(op.RopeDef), ropeOfPart), To: func(c *rw.Context) *ir.Node {
		n := c.Root()
		a := n.Attrs.(op.RopeAttrs)
		a.Heads = a.Geometry([]int{1, 1, int(n.Type.Shape[2].Const), a.HeadDim}[:n.Type.Rank()]).H
		a.Layout = op.BSE
		in := n.MapIn(c.Map)
		in[0], a.Start = rowsOf(c, n.In[0])
		return op.Reshape(c.Out.Add(op.RopeDef, a, in...), n.Type.Shape)
	}},
}

// attentionOfParts reports whether n is attention with an operand that is a part of longer rows.
func attentionOfParts(n *ir.Node) bool {
	a := n.Attrs.(op.AttentionAttrs)
	s, err := a.SizesOf(n.InTypes())
	return err == nil && a.Layout != op.BHSD && len(a.Packed) == 0 && s.D == s.DV &&
		slices.ContainsFunc(n.In[:3], func(x *ir.Node) bool {
			whole, _ := part(x)
			return whole != x
		})
}

func ropeOfPart(n *ir.Node) bool {
	a := n.Attrs.(op.RopeAttrs)
	whole, _ := part(n.In[0])
	return a.Layout != op.BHSD && a.Heads == 0 && whole != n.In[0] && n.Type.Shape[2].IsStatic()
}

// rowsOf adds the rows [B,S,W] that x is a part of. start is the element of a row at which the part begins.
func rowsOf(c *rw.Context, x *ir.Node) (rows *ir.Node, start int) {
	whole, start := part(x)
	s := whole.Type.Shape
	width, _ := s[2:].Numel()
	return op.Reshape(c.Map(whole), ir.Shape{s[0], s[1], width}), start
}

// part returns the value whose rows contain the rows of x unchanged, and the element at which x's rows begin. A row is
// all elements after axes 0 and 1. The value is x itself if x is not cut from longer rows.
func part(x *ir.Node) (whole *ir.Node, start int) {
	whole, at := x, 0
	for y := x; y.Type.Rank() >= 3 && y.Type.Shape[2:].IsStatic(); y = y.In[0] {
		switch {
		case y.Is(op.ReshapeDef):
			if s := y.In[0].Type.Shape; len(s) < 3 || !s[:2].Equal(y.Type.Shape[:2]) || !s[2:].IsStatic() {
				return whole, start
			}
		case y.Is(op.NarrowDef):
			a := y.Attrs.(op.NarrowAttrs)
			s := y.In[0].Type.Shape
			if a.Axis < 2 || !s[2:].IsStatic() ||
				slices.ContainsFunc(s[2:a.Axis], func(d ir.Dim) bool { return !d.Is(1) }) {
				return whole, start
			}
			inner, _ := s[a.Axis+1:].Numel()
			at += a.Start * int(inner.Const)
			whole, start = y.In[0], at
		default:
			return whole, start
		}
	}
	return whole, start
}
