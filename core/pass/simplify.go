package pass

import (
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	rw "github.com/rlx-go/rlx/core/rewrite"
)

// simplify removes ops that change nothing, and merges ops that undo or repeat each other. Lowerings and other passes
// leave such ops behind, so they need not avoid them.
//
//	a = transpose x {perm=[1,0]}
//	b = transpose a {perm=[1,0]}   ->   x
func simplify(c *context, g *ir.Graph) (*ir.Graph, error) {
	r := &ranges{c, map[*ir.Node]bounds{}}
	return c.rules(g, slices.Concat(simplifyRules, r.rules(), c.tapRules()))
}

var simplifyRules = []rw.Rule{
	{Name: "transpose-transpose", Match: rw.Op(op.TransposeDef, rw.As("t", rw.Op(op.TransposeDef, rw.Any("x")))),
		To: mergeTransposes},
	{Name: "transpose-identity",
		Match: rw.If(rw.Op(op.TransposeDef, rw.Any("x")), func(n *ir.Node) bool { return slices.IsSorted(perm(n)) }),
		To:    operand},
	{Name: "transpose-of-ones", Match: rw.If(rw.Op(op.TransposeDef, rw.Any("x")), movesOnlyOnes), To: toReshape},
	{Name: "reshape-reshape", Match: rw.Op(op.ReshapeDef, rw.Op(op.ReshapeDef, rw.Any("x"))), To: toReshape},
	{Name: "same-type", Match: rw.OneOf(rw.Op(op.ReshapeDef, rw.Any("x")), rw.Op(op.ExpandDef, rw.Any("x")),
		rw.Op(op.CastDef, rw.Any("x")),
		rw.Op(op.NarrowDef, rw.Any("x")), rw.Op(op.PadDef, rw.Any("x")), rw.Op(op.ConcatDef, rw.Any("x"))),
		To: operand},
	{Name: "expand-expand", Match: rw.Op(op.ExpandDef, rw.Op(op.ExpandDef, rw.Any("x"))),
		To: func(c *rw.Context) *ir.Node {
			return op.Expand(c.New("x"), c.Root().Type.Shape)
		}},
	{Name: "narrow-narrow", Match: rw.Op(op.NarrowDef, rw.As("n", rw.Op(op.NarrowDef, rw.Any("x")))), To: mergeNarrows},
	{Name: "narrow-concat", Match: rw.OneOf(rw.Op(op.NarrowDef, rw.Op(op.ConcatDef)),
		rw.Op(op.NarrowDef, rw.Op(op.TransposeDef, rw.Op(op.ConcatDef)))), To: narrowedPart},
	{Name: "gather-one", Match: rw.Op(op.GatherDef), To: gatherOne},
	{Name: "add-zero", Match: rw.Op(op.AddDef, rw.Any("x"), isConst(0)), To: operand},
	{Name: "sub-zero", Match: rw.Op(op.SubDef, rw.Any("x"), isConst(0)), To: operand},
	{Name: "mul-one", Match: rw.Op(op.MulDef, rw.Any("x"), isConst(1)), To: operand},
	{Name: "div-one", Match: rw.Op(op.DivDef, rw.Any("x"), isConst(1)), To: operand},
	{Name: "neg-neg", Match: rw.Op(op.NegDef, rw.Op(op.NegDef, rw.Any("x"))), To: operand},
	{Name: "and-true", Match: rw.If(rw.Op(op.AndDef, rw.Any("x"), isConst(1)), isBool), To: operand},
	{Name: "or-false", Match: rw.If(rw.Op(op.OrDef, rw.Any("x"), isConst(0)), isBool), To: operand},
	{Name: "where-true", Match: rw.Op(op.WhereDef, isConst(1), rw.Any("x"), rw.Any("other")), To: operand},
	{Name: "where-false", Match: rw.Op(op.WhereDef, isConst(0), rw.Any("other"), rw.Any("x")), To: operand},
	{Name: "reshape-const",
		Match: rw.OneOf(rw.Op(op.ReshapeDef, rw.As("c", rw.Op(op.ConstDef))),
			rw.Op(op.ExpandDef, rw.As("c", rw.Op(op.ConstDef)))), To: func(c *rw.Context) *ir.Node {
			return op.Const(c.Out, c.Node("c").Attrs.(op.ConstAttrs).Value, c.Root().Type)
		}},
}

// isConst matches a splat of v.
func isConst(v float64) rw.Pattern {
	return rw.If(rw.Op(op.ConstDef), func(n *ir.Node) bool { return n.Attrs.(op.ConstAttrs).Value == v })
}

func isBool(n *ir.Node) bool { return n.Type.DType == dtype.Bool }

func perm(n *ir.Node) []int { return n.Attrs.(op.TransposeAttrs).Perm }

// operand replaces the root by x if x has the root's type. x may have another type, because a splat may broadcast it.
func operand(c *rw.Context) *ir.Node {
	if !c.Node("x").Type.Equal(c.Root().Type) {
		return nil
	}
	return c.New("x")
}

func toReshape(c *rw.Context) *ir.Node { return op.Reshape(c.New("x"), c.Root().Type.Shape) }

func mergeTransposes(c *rw.Context) *ir.Node {
	outer, inner := perm(c.Root()), perm(c.Node("t"))
	p := make([]int, len(outer))
	for i, a := range outer {
		p[i] = inner[a]
	}
	return op.Transpose(c.New("x"), p...)
}

// movesOnlyOnes reports whether all axes longer than 1 keep their order, so that the bytes stay where they are.
func movesOnlyOnes(n *ir.Node) bool {
	last := -1
	for _, a := range perm(n) {
		if n.In[0].Type.Shape[a].Is(1) {
			continue
		}
		if a < last {
			return false
		}
		last = a
	}
	return true
}

func mergeNarrows(c *rw.Context) *ir.Node {
	outer, inner := c.Root().Attrs.(op.NarrowAttrs), c.Node("n").Attrs.(op.NarrowAttrs)
	if outer.Axis != inner.Axis {
		return nil
	}
	return op.Narrow(c.New("x"), outer.Axis, inner.Start+outer.Start, outer.Len)
}
