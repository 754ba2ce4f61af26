package onnx

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// This file converts nodes that join values along a partial axis, or cut them at a row that depends on the data.

// concatRows joins values along a partial axis. A gather then leaves out the unused rows.
func (n *node) concatRows() []*value {
	axis := n.axis(n.int("axis", 1), n.typeOf(0).Rank())
	along := false
	for _, v := range n.in {
		if v.bound != nil && v.bound.axis != axis {
			return nil
		}
		along = along || v.bound != nil
	}
	if !along {
		return nil
	}
	y := op.Concat(axis, n.all()...)
	at := n.positionsUpTo(y.Type.Shape[axis])
	from := at
	var end *ir.Node
	for i, v := range n.in {
		used := n.rowsUsed(i, axis)
		if end == nil {
			end = used
		} else {
			end = op.Add(end, used)
		}
		if v.bound != nil && i < len(n.in)-1 {
			hole := op.Sub(n.sizeNode(v.typ.Shape[axis], dtype.I64), used)
			from = op.Add(from, op.Where(op.Ge(at, end), hole, number(0, hole)))
		}
	}
	if from != at {
		last := n.sizeNode(n.plus(y.Type.Shape[axis], -1), dtype.I64)
		y = op.Gather(y, op.Min(from, last), axis)
	}
	n.bind(0, axis, end)
	return one(y)
}

// rowsFrom returns rows of x from start on, which is from 0 to the size of the axis. Rows after the end repeat the
// last.
func (n *node) rowsFrom(x *ir.Node, axis int, start *ir.Node, rows ir.Dim) *ir.Node {
	last := n.sizeNode(n.plus(x.Type.Shape[axis], -1), dtype.I64)
	at := op.Min(op.Add(n.positionsUpTo(rows), start), op.Max(last, number(0, last)))
	return op.Gather(x, at, axis)
}

// end returns element k of an input of Slice, i64[], and whether it is known.
func (n *node) end(i, k int) (at *ir.Node, e elem, known bool) {
	if list, ok := n.in[i].list(); ok {
		if e = list[k]; e.rows != nil {
			return op.Reshape(cast(e.rows, dtype.I64), ir.Shape{}), e, false
		}
		return n.sizeNode(e.num, dtype.I64), e, true
	}
	return element(n.x(i), k), elem{}, false
}

// sliceRows is Slice with steps of 1, from or to a position that is known only when the program runs, or of a partial
// axis from another position than 0.
func (n *node) sliceRows() []*value {
	axes := n.slicedAxes()
	b := n.in[0].bound
	moved := -1 // the axis that is partial in the result
	var first, used *ir.Node
	for k, a := range axes {
		switch mine := b != nil && b.axis == a; {
		case n.simpleCut(k, mine):
			return nil
		case !mine && n.knownCut(k):
			continue
		case moved >= 0 || b != nil && !mine:
			return nil // only one axis can be partial
		}
		moved = a
		first, used = n.rangeOf(k, a)
	}
	if moved < 0 {
		return nil
	}
	x := n.x(0)
	y := n.rowsFrom(x, moved, first, x.Type.Shape[moved])
	for k, a := range axes {
		if a != moved {
			_, start, _ := n.end(1, k)
			_, end, _ := n.end(2, k)
			y = n.cutAxis(y, cut{a, start.num, end.num, 1})
		}
	}
	n.bind(0, moved, used)
	return one(y)
}

// slicedAxes returns the axes of a Slice that sliceRows may convert, and nil for others.
func (n *node) slicedAxes() []int {
	switch {
	case n.version < 10 || n.in[0].elems != nil, n.has(4) && !n.stepsOfOne(), n.has(3) && !n.isKnown(3):
		return nil
	}
	if _, ok := n.declaredShape(0); ok && n.late(1, 2) && n.in[0].bound == nil { // then the number of rows is known
		return nil
	}
	rank, count := n.typeOf(0).Rank(), n.in[1].numel()
	axes := make([]int, max(count, 0))
	for k := range axes {
		axes[k] = k
	}
	if n.has(3) {
		axes = n.axes(n.ints(3), rank)
	}
	if n.in[2].numel() != count || int(count) != len(axes) || int(count) > rank {
		return nil
	}
	return axes
}

// simpleCut reports whether slicedBound takes cut k: from 0 to a number on the partial axis (mine), or from 0 to a
// number of used rows on another axis.
func (n *node) simpleCut(k int, mine bool) bool {
	_, start, startKnown := n.end(1, k)
	_, end, endKnown := n.end(2, k)
	switch {
	case !startKnown || !start.num.Is(0):
		return false
	case mine:
		return end.rows != nil || endKnown && end.num.IsStatic() && end.num.Const >= 0
	}
	return end.rows != nil
}

// knownCut reports whether both ends of cut k are known.
func (n *node) knownCut(k int) bool {
	_, _, start := n.end(1, k)
	_, _, end := n.end(2, k)
	return start && end
}

// rangeOf returns the first position of cut k of an axis, and the number of positions, which are among the rows that
// are used.
func (n *node) rangeOf(k, axis int) (first, used *ir.Node) {
	size := n.rowsUsed(0, axis)
	inside := func(i int) *ir.Node {
		p, _, _ := n.end(i, k)
		p = op.Where(op.Lt(p, number(0, p)), op.Add(p, size), p)
		return op.Min(op.Max(p, number(0, p)), size)
	}
	first = inside(1)
	used = op.Sub(inside(2), first)
	return first, op.Max(used, number(0, used))
}

func (n *node) stepsOfOne() bool {
	if !n.isKnown(4) {
		return false
	}
	for _, s := range n.ints(4) {
		if s != 1 {
			return false
		}
	}
	return true
}

// rangeRows is Range from 0 to a number of rows that depends on the data, in steps of 1.
func (n *node) rangeRows() []*value {
	_, rows := n.in[1].rowsOrNil()
	if rows == nil || !n.isKnown(0) || !n.isKnown(2) || n.array(0).At(0) != 0 || n.array(2).At(0) != 1 {
		return nil
	}
	n.bind(0, 0, rows)
	return one(op.Iota(n.b.g, 0, ir.Type{DType: n.typeOf(1).DType, Shape: ir.Shape{n.in[1].elems[0].num}}))
}

// splitRows is Split into parts of sizes that are known only when the program runs. If their sizes are known, but those
// of the axis are not, it checks that all are there.
func (n *node) splitRows() []*value {
	if n.version < 13 || !n.has(1) {
		return nil
	}
	x, b := n.x(0), n.in[0].bound
	axis := n.axis(n.int("axis", 0), x.Type.Rank())
	parts := len(n.p.GetOutput())
	known := n.isKnown(1)
	mine := b != nil && b.axis == axis
	if n.in[1].numel() != int64(parts) || known && !mine || !known && b != nil && !mine {
		return nil
	}
	var out []*value
	start := op.Const(n.b.g, 0, ir.TypeOf(dtype.I64))
	if known {
		sizes, total := n.ints(1), 0
		for _, s := range sizes {
			total += s
		}
		at := n.settled(0, ir.Static(int64(total)))
		return many(op.SplitSizes(n.b.at(at), axis, sizes...)...)
	}
	for k := range parts {
		size := element(n.x(1), k)
		out = append(out, one(n.rowsFrom(x, axis, start, x.Type.Shape[axis]))...)
		n.bind(k, axis, size)
		start = op.Add(start, size)
	}
	return out
}
