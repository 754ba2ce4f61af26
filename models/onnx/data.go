package onnx

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/hir"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// This file has ops whose data determine the number of rows of their results. Where the model declares a size, the
// result has it. Otherwise it has the largest number of rows, and unused rows are zero. For each output with such rows,
// the method has one more output with their number. See bounded.go for nodes that read such a result.

const boundedNote = "without a declared size, the result has the largest one, and output NAME_count says how many rows are used"

// The ranks of inputs.
var (
	_ = ranks("3 3 one one one", "NonMaxSuppression")
	_ = ranks("* 1", "Compress")
)

var (
	_ = register("NonZero", conversion{since: 9, keep: true, convert: nonZero, note: boundedNote})
	_ = register("Compress", conversion{since: 9, keep: true, convert: compress, note: boundedNote})
	_ = register("NonMaxSuppression", conversion{since: 10, keep: true, convert: suppress, note: boundedNote})
	_ = register("Unique", conversion{since: 11, keep: true, convert: uniqueOp,
		note: "of slices of up to 256 elements; " + boundedNote})
)

// rowsOf returns how many rows a result has on an axis: the declared number or, if none is declared, most. In the
// second case count of them are used.
func (n *node) rowsOf(result, axis int, most ir.Dim, count *ir.Node) ir.Dim {
	if shape, ok := n.declaredShape(result); ok && axis < len(shape) {
		return shape[axis]
	}
	name := n.p.GetOutput()[result]
	if n.b.scope.outer != nil {
		n.fail("the size of result %q depends on data; that is allowed in the main graph only", name)
	}
	n.bounded = append(n.bounded, resultBound{result, bound{axis, count}})
	return most
}

// compacted returns the positions, i64 [rows], at which a vector of bools is true. Rows after the last one are 0.
func (n *node) compacted(mask *ir.Node, rows ir.Dim) *ir.Node {
	ones := cast(mask, dtype.I64)
	size := mask.Type.Shape[0]
	at := op.Sub(op.Cumsum(ones, op.ScanAttrs{Axis: 0}), number(1, ones))
	spare := n.sizeNode(rows, dtype.I64) // unused elements go to a row after the last one
	at = op.Where(mask, op.Min(at, spare), spare)
	positions := op.Iota(n.b.g, 0, ir.Type{DType: dtype.I64, Shape: ir.Shape{size}})
	zero := op.Const(n.b.g, 0, ir.Type{DType: dtype.I64, Shape: ir.Shape{n.plus(rows, 1)}})
	out := op.Scatter(zero, at, positions, "none")
	return op.Gather(out, op.Iota(n.b.g, 0, ir.Type{DType: dtype.I64, Shape: ir.Shape{rows}}), 0)
}

func countOf(mask *ir.Node) *ir.Node { return op.ReduceSum(cast(mask, dtype.I64), false, 0) }

// nonZero is NonZero: the coordinates of elements that are not 0, [rank, count].
func nonZero(n *node) []*value {
	x := n.x(0)
	shape := x.Type.Shape
	mask := n.flat(x)
	if x.Type.DType != dtype.Bool {
		mask = op.Ne(mask, number(0, mask))
	}
	at := n.compacted(mask, n.rowsOf(0, 1, mask.Type.Shape[0], countOf(mask)))
	var rows []*ir.Node
	for i, d := range shape {
		c := op.Div(at, op.Max(n.sizeNode(n.product(shape[i+1:]), dtype.I64), number(1, at)))
		rows = append(rows, op.Mod(c, op.Max(n.sizeNode(d, dtype.I64), number(1, at))))
	}
	if len(rows) == 0 {
		return one(op.Const(n.b.g, 0, ir.Type{DType: dtype.I64, Shape: append(ir.ShapeOf(0), at.Type.Shape...)}))
	}
	return one(op.Stack(0, rows...))
}

// compress is Compress: the slices along an axis for which a condition is true.
func compress(n *node) []*value {
	x, mask := n.x(0), n.x(1)
	axis := 0
	if n.attr("axis") == nil {
		x = n.flat(x)
	} else {
		axis = n.axis(n.int("axis", 0), x.Type.Rank())
	}
	at := n.compacted(mask, n.rowsOf(0, axis, mask.Type.Shape[0], countOf(mask)))
	return one(op.Gather(x, at, axis))
}

// maxUniqueColumns limits the elements of a slice that Unique compares: each costs a sort.
const maxUniqueColumns = 1 << 8

// uniqueOp converts Unique, of all elements or of the slices along an axis. It sorts them, and keeps those that differ
// from their neighbour.
func uniqueOp(n *node) []*value {
	x, axis := n.x(0), 0
	if n.attr("axis") == nil {
		x = n.flat(x)
	} else {
		axis = n.axis(n.int("axis", 0), x.Type.Rank())
	}
	size := x.Type.Shape[axis]
	if !size.IsStatic() || size.Const < 1 {
		n.fail("the input has %v slices to compare; want a number that is known, 1 or more", size)
	}
	count := int(size.Const)
	order, first := n.sortedSlices(x, axis)
	group := op.Sub(op.Cumsum(cast(first, dtype.I64), op.ScanAttrs{Axis: 0}), number(1, order)) // of sorted slices
	number0 := op.Const(n.b.g, 0, ir.TypeOf(dtype.I64, size.Const))
	inverse := op.Scatter(number0, order, group, "none")
	// The first of equals, by its position: the sort may not keep their order.
	far := op.Const(n.b.g, float64(count), ir.TypeOf(dtype.I64, size.Const))
	index := op.Scatter(far, group, order, "min")
	counts := op.Scatter(number0, group, op.Const(n.b.g, 1, ir.TypeOf(dtype.I64, size.Const)), "add")
	groups := countOf(first)
	used := op.Lt(n.along(ir.ShapeOf(size.Const), 0), groups)
	if n.int("sorted", 1) == 0 {
		_, by := op.Sort(index, 0, false) // groups that are not used come last
		by = cast(by, dtype.I64)
		index, counts = op.Gather(index, by, 0), op.Gather(counts, by, 0)
		rank := op.Scatter(number0, by, n.along(ir.ShapeOf(size.Const), 0), "none")
		inverse = op.Gather(rank, inverse, 0)
	}
	index = op.Where(used, index, number(0, index))
	all := []*ir.Node{op.Gather(x, index, axis), index, inverse, counts}
	for i := range all {
		if i != 2 && i < len(n.p.GetOutput()) && n.p.GetOutput()[i] != "" {
			along := axis
			if i > 0 {
				along = 0
			}
			rows := n.rowsOf(i, along, size, groups)
			all[i] = op.Narrow(all[i], along, 0, int(rows.Const))
		}
	}
	return many(all...)
}

// sortedSlices returns the order of the slices of x along an axis, i64, by their first element, then by the second, and
// so on. first says which of the sorted slices differ from the one before.
func (n *node) sortedSlices(x *ir.Node, axis int) (order, first *ir.Node) {
	size := x.Type.Shape[axis].Const
	if axis > 0 {
		perm := []int{axis}
		for i := range x.Type.Rank() {
			if i != axis {
				perm = append(perm, i)
			}
		}
		x = op.Transpose(x, perm...)
	}
	width, ok := x.Type.Shape[1:].Numel()
	if !ok || !width.IsStatic() || width.Const > maxUniqueColumns {
		n.fail("the slices have %v elements; allowed is a known number up to %d", width, maxUniqueColumns)
	}
	rows := op.Reshape(x, ir.ShapeOf(size, width.Const))
	order = n.along(ir.ShapeOf(size), 0)
	for c := int(width.Const) - 1; c >= 0; c-- { // the sort keeps the order of equals
		column := op.Reshape(op.Narrow(rows, 1, c, 1), ir.ShapeOf(size))
		order = op.Gather(order, op.ArgSort(op.Gather(column, order, 0), 0, false), 0)
	}
	first = op.Const(n.b.g, 1, ir.TypeOf(dtype.Bool, 1))
	if size > 1 {
		rows = op.Gather(rows, order, 0)
		differs := op.Ne(op.Narrow(rows, 0, 1, int(size)-1), op.Narrow(rows, 0, 0, int(size)-1))
		first = op.Concat(0, first, op.Any(differs, false, 1))
	}
	return order, first
}

// suppress converts NonMaxSuppression. Each step takes the best remaining box of each class and drops those that
// overlap it.
func suppress(n *node) []*value {
	boxes, scores := cast(n.x(0), dtype.F32), cast(n.x(1), dtype.F32)
	s := scores.Type.Shape // [B,C,N]
	if scores.Type.Rank() != 3 || boxes.Type.Rank() != 3 {
		n.fail("boxes are %v and scores %v; want [B,N,4] and [B,C,N]", boxes.Type, scores.Type)
	}
	steps := n.suppressSteps(s[2])
	scalar := func(i int, otherwise float64, d dtype.DType) *ir.Node {
		if !n.has(i) {
			return op.Const(n.b.g, otherwise, ir.TypeOf(d))
		}
		return op.Reshape(cast(n.x(i), d), ir.Shape{})
	}
	most, limit := scalar(2, 0, dtype.I64), scalar(3, 0, dtype.F32)
	lowest := op.Const(n.b.g, -1e30, ir.TypeOf(dtype.F32))
	left := scores
	if n.has(4) {
		left = op.Where(op.Gt(scores, scalar(4, 0, dtype.F32)), scores, lowest)
	}
	corners := n.corners(boxes) // [B,1,N,4]
	none := op.Const(n.b.g, -1, ir.Type{DType: dtype.I64, Shape: s[:2]})
	body := ir.NewGraph("suppress", n.b.g.Syms...)
	err := body.Build(func() {
		rest := op.Input(body, "left", left.Type)
		op.Input(body, "last", none.Type)
		c, over := op.Input(body, "corners", corners.Type), op.Input(body, "limit", limit.Type)
		best := op.Cast(op.ArgMax(rest, 2, true), dtype.I64) // [B,C,1]
		top := op.ReduceMax(rest, true, 2)
		found := op.Gt(top, number(-1e30, top))
		i := op.Iota(body, 2, ir.Type{DType: dtype.I64, Shape: ir.Shape{ir.Static(1), ir.Static(1), s[2]}})
		chosen := op.Eq(i, best) // [B,C,N]
		wide := ir.Shape{s[0], s[1], s[2], ir.Static(1)}
		box := op.ReduceSum(op.Where(op.Reshape(chosen, wide), c, number(0, c)), true, 2) // [B,C,1,4]
		drop := op.Or(chosen, op.Gt(overlap(box, c), over))
		body.Return("left", op.Where(drop, number(-1e30, rest), rest))
		body.Return("chosen", op.Reshape(op.Where(found, best, number(-1, best)), s[:2]))
	})
	if err != nil {
		n.b.g.Fail(err)
	}
	chosen := n.b.g.Add(hir.ScanDef, hir.ScanAttrs{Body: body, Length: steps, Carried: 2, Trajectory: true, Result: 1},
		left, none, corners, limit) // [steps,B,C]
	chosen = op.Transpose(chosen, 1, 2, 0)
	t := chosen.Type.Shape
	valid := op.And(op.Ge(chosen, number(0, chosen)), op.Lt(n.along(t, 2), most))
	flat := n.flat(valid)
	rows := n.rowsOf(0, 0, flat.Type.Shape[0], countOf(flat))
	at := n.compacted(flat, rows)
	used := op.Lt(op.Iota(n.b.g, 0, at.Type), countOf(flat))
	var out []*ir.Node
	for _, v := range []*ir.Node{n.along(t, 0), n.along(t, 1), chosen} {
		v = op.Gather(n.flat(op.Expand(v, t)), at, 0)
		out = append(out, op.Where(used, v, number(0, v)))
	}
	return one(op.Stack(1, out...))
}

// suppressSteps returns how many boxes of a class can be selected.
func (n *node) suppressSteps(boxes ir.Dim) int {
	_, most := n.b.g.Syms.Bounds(boxes)
	if n.has(2) && n.in[2].isKnown() {
		most = min(most, max(0, n.array(2).Ints[0]))
	}
	if shape, ok := n.declaredShape(0); ok && len(shape) == 2 && shape[0].IsStatic() {
		most = min(most, shape[0].Const)
	}
	return int(max(most, 1))
}

// corners returns boxes [B,N,4] as y1, x1, y2, x2 with y1 <= y2 and x1 <= x2, [B,1,N,4].
func (n *node) corners(boxes *ir.Node) *ir.Node {
	part := func(i int) *ir.Node { return op.Narrow(boxes, 2, i, 1) }
	var y1, x1, y2, x2 *ir.Node
	if n.int("center_point_box", 0) != 0 {
		half := func(i int) *ir.Node { return op.Div(part(i), number(2, boxes)) }
		x1, x2 = op.Sub(part(0), half(2)), op.Add(part(0), half(2))
		y1, y2 = op.Sub(part(1), half(3)), op.Add(part(1), half(3))
	} else {
		y1, y2 = op.Min(part(0), part(2)), op.Max(part(0), part(2))
		x1, x2 = op.Min(part(1), part(3)), op.Max(part(1), part(3))
	}
	c := op.Concat(2, y1, x1, y2, x2)
	s := c.Type.Shape
	return op.Reshape(c, ir.Shape{s[0], ir.Static(1), s[1], s[2]})
}

// overlap returns the intersection over union of boxes [B,C,1,4] and [B,1,N,4], 0 for boxes without area: [B,C,N].
func overlap(a, b *ir.Node) *ir.Node {
	part := func(x *ir.Node, i int) *ir.Node {
		x = op.Narrow(x, 3, i, 1)
		return op.Reshape(x, x.Type.Shape[:3])
	}
	side := func(i int) *ir.Node {
		d := op.Sub(op.Min(part(a, i+2), part(b, i+2)), op.Max(part(a, i), part(b, i)))
		return op.Max(d, number(0, d))
	}
	area := func(x *ir.Node) *ir.Node {
		return op.Mul(op.Sub(part(x, 2), part(x, 0)), op.Sub(part(x, 3), part(x, 1)))
	}
	inter := op.Mul(side(0), side(1))
	union := op.Sub(op.Add(area(a), area(b)), inter)
	return op.Where(op.Gt(inter, number(0, inter)), op.Div(inter, union), number(0, inter))
}
