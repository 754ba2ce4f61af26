package onnx

import (
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// bound says that an axis of a value is partial: only its first rows are used, and how many depends on the data. count
// is their number, i64[]. The other rows have no meaning.
type bound struct {
	axis  int
	count *ir.Node
}

func (b *bound) countOrNil() *ir.Node {
	if b == nil {
		return nil
	}
	return b.count
}

// resultBound is the bound of a result.
type resultBound struct {
	result int
	bound  bound
}

// Ops for which a row of the result is used if the same row of the inputs is.
var elementwise = strings.Fields(`Abs Acos Acosh Add And Asin Asinh Atan Atanh BitwiseAnd BitwiseNot BitwiseOr BitwiseXor
	BitShift Cast Ceil Celu Clip Cos Cosh Div Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish
	Identity IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Min Mish Mod Mul Neg Not Or Pow PRelu Reciprocal Relu Round
	Selu Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Where Xor`)

func isElementwise(name string) bool { return slices.Contains(elementwise, name) }

// takesRows has ops that take a number of rows that depends on the data, in a shape or as the end of a slice.
var takesRows = strings.Fields("ConstantOfShape Expand Reshape Slice")

// boundOf returns the bound of the results of a node that reads values with bounds, or nil if it reads no such values.
// It ends the import if the used rows alone do not determine the op's result.
func (n *node) boundOf() func(out *ir.Node) *bound {
	i := slices.IndexFunc(n.in, func(v *value) bool { return v != nil && v.bound != nil })
	if i < 0 {
		return n.sizedBound()
	}
	b, rank := *n.in[i].bound, n.typeOf(i).Rank()
	switch name := n.p.GetOpType(); {
	case canonical(n.p.GetDomain()) != "":
	case isElementwise(name):
		if n.sameRows(b.axis - rank) {
			return func(out *ir.Node) *bound { return &bound{out.Type.Rank() + b.axis - rank, b.count} }
		}
	case name == "Shape":
		return func(*ir.Node) *bound { return nil }
	case name == "Slice":
		return n.slicedBound(&b)
	case name == "Squeeze", name == "Unsqueeze", name == "Reshape", name == "Flatten":
		if i == 0 {
			return func(out *ir.Node) *bound { return n.reshapedBound(b, n.typeOf(i).Shape, out.Type.Shape) }
		}
	case name == "Expand" && i == 0:
		return n.expandedBound(&b)
	case name == "ScatterND", name == "ScatterElements":
		// Unused rows are not written. There are as many updates as indices, or the model is not valid.
		if u := n.in[2].bound; i == 1 && (u == nil || u.axis == b.axis) {
			return func(*ir.Node) *bound { return nil }
		}
	case name == "MatMul" || name == "Gemm":
		if from := n.productAxis(i, b.axis-rank); from != 0 {
			return func(out *ir.Node) *bound { return &bound{out.Type.Rank() + from, b.count} }
		}
	default:
		if axis := n.movedAxis(i, b.axis, rank); axis >= 0 {
			return func(*ir.Node) *bound { return &bound{axis, b.count} }
		}
	}
	n.fail("reads all of axis %[2]d of %[1]q, whose number of used rows depends on the data; the unused rows could change "+
		"the result. Allowed are elementwise ops, norms of other axes, products, reductions, Softmax, CumSum, Concat, Gather, "+
		"GatherND, ScatterND, Slice, Split, Transpose, and Reshape, Squeeze and Unsqueeze of other axes", n.in[i].name, b.axis)
	return nil
}

// sizedBound returns the bound of a result that gets its rows from a shape or the end of a slice; nil if there is none.
func (n *node) sizedBound() func(out *ir.Node) *bound {
	name := n.p.GetOpType()
	if canonical(n.p.GetDomain()) != "" || !slices.Contains(takesRows, name) {
		return nil
	}
	for i, v := range n.in {
		at, rows := v.rowsOrNil()
		switch {
		case rows == nil:
		case name == "ConstantOfShape":
			return func(*ir.Node) *bound { return &bound{at, rows} }
		case name == "Expand" && i == 1:
			return n.expandedBound(nil)
		case name == "Slice" && i == 2:
			return n.slicedBound(nil)
		default:
			n.fail("input %d (%s) is computed from a number of rows that depends on the data; that is not supported here", i, v.name)
		}
	}
	return nil
}

// expandedBound returns the bound of Expand: that of its input, or of the shape.
func (n *node) expandedBound(b *bound) func(out *ir.Node) *bound {
	at, rows := n.in[1].rowsOrNil()
	size, rank := int(n.in[1].numel()), n.typeOf(0).Rank()
	switch {
	case b == nil:
	case !n.isKnown(1):
		count := element(n.x(1), b.axis)
		return func(*ir.Node) *bound { return &bound{b.axis, count} }
	case rows == nil:
		at, rows = b.axis-rank+size, b.count
		if list := n.dims(1); at >= 0 && !list[at].Is(1) {
			n.fail("expands axis %d of %q, whose number of used rows depends on the data, to %v", b.axis, n.in[0].name,
				list[at])
		}
	case rows != b.count || at-size != b.axis-rank:
		n.fail("expands axis %d of %q, whose number of used rows depends on the data, to another number of rows",
			b.axis, n.in[0].name)
	}
	from := at - size
	return func(out *ir.Node) *bound { return &bound{out.Type.Rank() + from, rows} }
}

// productAxis returns the axis of a product that has the rows of an axis of input i. Both count from the end. It is 0
// if the product adds along that axis.
func (n *node) productAxis(i, axis int) int {
	if n.p.GetOpType() == "Gemm" {
		if i == 0 && axis == -2 && n.int("transA", 0) == 0 {
			return -2
		}
		return 0
	}
	other := n.in[1-i]
	switch {
	case other.bound != nil || n.typeOf(i).Rank() < 2 || other.typ.Rank() < 2:
		return 0
	case i == 0 && axis != -1, i == 1 && axis != -2:
		return axis
	}
	return 0
}

// scattered scatters rows of updates to rows of x. If the number of used rows of the indices depends on the data, the
// others go to a row after the last one, which is dropped. used is the shape of the indices whose elements are the
// rows.
func (n *node) scattered(x, at, updates *ir.Node, used ir.Shape) *ir.Node {
	how := n.str("reduction", "none")
	b := n.in[1].bound
	if b == nil {
		return op.Scatter(x, at, updates, how)
	}
	size := x.Type.Shape[0]
	in := op.Lt(n.along(used, b.axis), op.Reshape(cast(b.count, dtype.I64), ir.Shape{}))
	at = op.Where(n.flat(op.Expand(in, used)), cast(at, dtype.I64), n.sizeNode(size, dtype.I64))
	spare := op.Const(n.b.g, 0, ir.Type{DType: x.Type.DType, Shape: append(ir.ShapeOf(1), x.Type.Shape[1:]...)})
	y := op.Scatter(op.Concat(0, x, spare), at, updates, how)
	return op.Gather(y, op.Iota(n.b.g, 0, ir.Type{DType: dtype.I64, Shape: ir.Shape{size}}), 0)
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
	return n.keptAxis(i, axis, rank)
}

// keptAxis returns the axis of the result of an op that computes each row by itself, or -1.
func (n *node) keptAxis(i, axis, rank int) int {
	switch n.p.GetOpType() {
	case "Split":
		if i == 0 && n.axis(n.int("axis", 0), rank) != axis {
			return axis
		}
	case "Softmax", "LogSoftmax":
		if along := n.axis(n.int("axis", map[bool]int64{true: -1, false: 1}[n.version >= 13]), rank); along > axis ||
			n.version >= 13 && along != axis {
			return axis
		}
	case "LayerNormalization", "RMSNormalization":
		if i == 0 && n.axis(n.int("axis", -1), rank) > axis {
			return axis
		}
	case "Conv", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "BatchNormalization",
		"InstanceNormalization":
		if i == 0 && axis == 0 {
			return 0
		}
	case "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2":
		return n.reducedAxis(axis, rank)
	}
	return -1
}

// reducedAxis returns the place of an axis after a reduction of others, or -1.
func (n *node) reducedAxis(axis, rank int) int {
	axes, ok := n.axesOf(1, rank)
	if !ok || len(axes) == 0 || slices.Contains(axes, axis) {
		return -1
	}
	if n.int("keepdims", 1) != 0 {
		return axis
	}
	out := axis
	for _, a := range axes {
		if a < axis {
			out--
		}
	}
	return out
}

// sameRows reports whether each input has the same rows on an axis or repeats along it. axis counts from the end, so it
// is negative.
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
// b is nil if only the end of a slice is a number of rows.
func (n *node) slicedBound(b *bound) func(*ir.Node) *bound {
	at, rows := n.in[min(2, len(n.in)-1)].rowsOrNil()
	if n.version < 10 {
		rows = nil
	}
	for i, c := range n.cuts(n.typeOf(0).Rank()) {
		ends := rows != nil && i == at // with a number of rows
		if b != nil && c.axis != b.axis || b == nil && !ends {
			if ends {
				n.fail("cuts axis %d of %q at a number of rows that depends on the data, and axis %d has another such number", c.axis,
					n.in[0].name, b.axis)
			}
			continue
		}
		start, _ := n.bounds(c, n.typeOf(0).Shape[c.axis])
		if !start.Is(0) || c.step != 1 || !ends && (!c.end.IsStatic() || c.end.Const < 0) {
			n.fail("cuts axis %d of %q, whose number of used rows depends on the data; allowed is a slice from 0 to a "+
				"number that is known and not negative", c.axis, n.in[0].name)
		}
		return func(out *ir.Node) *bound {
			most := n.sizeNode(out.Type.Shape[c.axis], dtype.I64)
			for _, count := range []*ir.Node{rows, b.countOrNil()} {
				if count != nil {
					most = op.Min(most, cast(count, dtype.I64))
				}
			}
			return &bound{c.axis, most}
		}
	}
	return func(*ir.Node) *bound { return b }
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
	n.fail("reshapes axis %d of %v, whose number of used rows depends on the data, to %v; want that axis to stay, or to be "+
		"joined with all after it", b.axis, from, to)
	return nil
}
