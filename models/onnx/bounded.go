package onnx

import (
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// bound says that only the first rows of a value on an axis are used: count of them, i64[]. The others have no meaning.
type bound struct {
	axis  int
	count *ir.Node
}

// resultBound is the bound of a result.
type resultBound struct {
	result int
	bound  bound
}

// Ops whose results have rows that are used where their inputs have them.
var elementwise = strings.Fields(`Abs Acos Acosh Add And Asin Asinh Atan Atanh BitwiseAnd BitwiseNot BitwiseOr BitwiseXor
	BitShift Cast Ceil Celu Clip Cos Cosh Div Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish
	Identity IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Min Mish Mod Mul Neg Not Or Pow PRelu Reciprocal Relu Round
	Selu Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Where Xor`)

// boundOf returns the bound of the results of a node that reads values with bounds, or nil if it reads no such values.
// It ends the import if the used rows alone do not determine the op's result.
func (n *node) boundOf() func(out *ir.Node) *bound {
	i := slices.IndexFunc(n.in, func(v *value) bool { return v != nil && v.bound != nil })
	if i < 0 {
		return nil
	}
	b, rank := *n.in[i].bound, n.typeOf(i).Rank()
	switch name := n.p.GetOpType(); {
	case canonical(n.p.GetDomain()) != "":
	case slices.Contains(elementwise, name):
		if n.sameRows(b.axis - rank) {
			return func(out *ir.Node) *bound { return &bound{out.Type.Rank() + b.axis - rank, b.count} }
		}
	case name == "Slice":
		return n.slicedBound(b)
	case name == "Squeeze", name == "Unsqueeze", name == "Reshape", name == "Flatten":
		return func(out *ir.Node) *bound { return n.reshapedBound(b, n.typeOf(i).Shape, out.Type.Shape) }
	default:
		if axis := n.movedAxis(i, b.axis, rank); axis >= 0 {
			return func(*ir.Node) *bound { return &bound{axis, b.count} }
		}
	}
	n.fail("reads %q, of which the data decide how many rows on axis %d are used, in a way that its result may depend on "+
		"the others; allowed are elementwise ops, Gather, GatherND, Slice from 0 on, Transpose, and Reshape, Squeeze and "+
		"Unsqueeze of other axes", n.in[i].name, b.axis)
	return nil
}

// movedAxis returns the axis of the result that has the rows of an axis of input i, or -1.
func (n *node) movedAxis(i, axis, rank int) int {
	at := func(along int) int { return n.axis(n.int("axis", 0), along) }
	switch n.p.GetOpType() {
	case "Transpose":
		perm, ok := n.list("perm")
		if !ok {
			return rank - 1 - axis
		}
		return slices.Index(perm, axis)
	case "Gather":
		switch {
		case i == 1 && n.in[0].bound == nil:
			return at(n.typeOf(0).Rank()) + axis
		case n.in[1].bound != nil:
		case at(rank) > axis:
			return axis
		case at(rank) < axis:
			return axis - 1 + n.typeOf(1).Rank()
		}
	case "GatherND":
		if i == 1 && n.in[0].bound == nil && n.int("batch_dims", 0) == 0 && axis < rank-1 {
			return axis
		}
	case "Concat":
		if at(rank) != axis && n.sameRows(axis-rank) {
			return axis
		}
	}
	return -1
}

// sameRows reports whether all inputs have the same rows on an axis, which is counted from the end and so negative, or
// repeat along it.
func (n *node) sameRows(axis int) bool {
	var count *ir.Node
	for i, v := range n.in {
		if v == nil {
			continue
		}
		s := n.typeOf(i).Shape
		switch {
		case v.bound != nil && (v.bound.axis-len(s) != axis || count != nil && count != v.bound.count):
			return false
		case v.bound != nil:
			count = v.bound.count
		case len(s)+axis >= 0 && !s[len(s)+axis].Is(1):
			return false
		}
	}
	return true
}

// slicedBound returns the bound of a slice: the bound of the input, or fewer rows if the axis itself is cut at an end.
func (n *node) slicedBound(b bound) func(*ir.Node) *bound {
	for _, c := range n.cuts(n.typeOf(0).Rank()) {
		if c.axis != b.axis {
			continue
		}
		size := n.typeOf(0).Shape[b.axis]
		start, _ := n.bounds(c, size)
		if !start.Is(0) || c.step != 1 || !c.end.IsStatic() || c.end.Const < 0 {
			n.fail("cuts axis %d of %q, of which the data decide how many rows are used; allowed is a slice from 0 to a "+
				"number that is known and not negative", b.axis, n.in[0].name)
		}
		return func(out *ir.Node) *bound {
			most := n.sizeNode(out.Type.Shape[b.axis], b.count.Type.DType)
			return &bound{b.axis, op.Min(b.count, most)}
		}
	}
	return func(*ir.Node) *bound { return &bound{b.axis, b.count} }
}

// reshapedBound returns the bound after a reshape. It is that of the axis with the same number of elements before and
// after it, or of the first axis if it is joined with those after it.
func (n *node) reshapedBound(b bound, from, to ir.Shape) *bound {
	before := n.product(from[:b.axis])
	inner := n.product(from[b.axis+1:])
	for axis := range to {
		if n.product(to[:axis]) != before {
			continue
		}
		if to[axis] == from[b.axis] && n.product(to[axis+1:]) == inner {
			return &bound{axis, b.count}
		}
		if whole, ok := from[b.axis].Mul(inner); ok && to[axis] == whole && n.product(to[axis+1:]).Is(1) {
			return &bound{axis, op.Mul(b.count, n.sizeNode(inner, b.count.Type.DType))}
		}
	}
	n.fail("reshapes %v, of which the data decide how many rows on axis %d are used, to %v; want that axis to stay, or to be "+
		"joined with all after it", from, b.axis, to)
	return nil
}
