package onnx

import (
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// This file has ops that read and write elements at indices. They work on flat tensors: an index is the position of an
// element, which is computed from its coordinates.

// The ranks of inputs.
var (
	_ = ranks("1+ 1+", "GatherElements", "GatherND", "ScatterElements", "Scatter", "ScatterND")
	_ = ranks("2+ 2+ 1", "TensorScatter")
	_ = ranks("2+ 1", "ReverseSequence")
)

var (
	_ = on("GatherElements", 11, func(n *node) []*value {
		x := n.x(0)
		axis := n.axis(n.int("axis", 0), x.Type.Rank())
		switch rows := n.rowIndices(1, x.Type.Shape, axis); {
		case rows != nil && axis == 0:
			return one(op.Gather(x, rows, 0))
		case rows != nil && x.Type.DType.IsFloat(): // of which every target that gathers has tables
			return one(op.GatherBatched(x, rows, axis))
		}
		return one(n.pick(x, n.indices(1, x.Type.Shape[axis]), axis))
	})
	_ = register("ScatterElements", conversion{since: 11, symbolic: symbolicScatter, convert: scatterElements})
	_ = on("Scatter", 9, scatterElements)
	_ = on("GatherND", 11, func(n *node) []*value {
		x, idx := n.x(0), n.x(1)
		batch := n.int("batch_dims", 0)
		rank := idx.Type.Rank()
		depth := n.depth(idx)
		if batch < 0 || batch >= rank || batch+depth > x.Type.Rank() {
			n.fail("has data %v, indices %v and batch_dims %d; want batch_dims of less than rank %d, and data of rank %d or "+
				"more", x.Type, idx.Type, batch, rank, batch+depth)
		}
		rest := x.Type.Shape[batch+depth:]
		rows := op.Reshape(x, append(ir.Shape{n.product(x.Type.Shape[:batch+depth])}, rest...))
		at := n.rowOf(idx, x.Type.Shape[batch:batch+depth])
		if batch > 0 {
			inner := n.product(x.Type.Shape[batch : batch+depth])
			at = op.Reshape(at, ir.Shape{n.product(x.Type.Shape[:batch]), n.product(idx.Type.Shape[batch : rank-1])})
			b := op.Iota(n.b.g, 0, ir.Type{DType: dtype.I64, Shape: ir.Shape{at.Type.Shape[0], ir.Static(1)}})
			at = op.Add(at, op.Mul(b, n.sizeNode(inner, dtype.I64)))
		}
		y := op.Gather(rows, n.flat(at), 0)
		return one(op.Reshape(y, append(append(ir.Shape{}, idx.Type.Shape[:rank-1]...), rest...)))
	})
	_ = on("ScatterND", 11, func(n *node) []*value {
		x, idx, u := n.x(0), n.x(1), n.x(2)
		depth := n.depth(idx)
		if depth > x.Type.Rank() {
			n.fail("has data %v and indices %v, which have %d coordinates; want as many as axes or fewer", x.Type, idx.Type,
				depth)
		}
		rest := x.Type.Shape[depth:]
		rows := op.Reshape(x, append(ir.Shape{n.product(x.Type.Shape[:depth])}, rest...))
		at := n.flat(n.rowOf(idx, x.Type.Shape[:depth]))
		updates := op.Reshape(u, append(ir.Shape{at.Type.Shape[0]}, rest...))
		return one(op.Reshape(n.scattered(rows, at, updates, idx.Type.Shape[:idx.Type.Rank()-1]), x.Type.Shape))
	})
	_ = on("TensorScatter", 24, tensorScatter)
	_ = on("ReverseSequence", 10, func(n *node) []*value {
		return one(n.reversed(n.x(0), n.x(1), n.int("time_axis", 0), n.int("batch_axis", 1)))
	})
)

// reversed returns x with the order of the first elements along an axis reversed. lens has the number of these elements
// for each position on the axis batch.
func (n *node) reversed(x, lens *ir.Node, axis, batch int) *ir.Node {
	t := n.along(x.Type.Shape, axis)
	limit := n.at(cast(lens, dtype.I64), batch, x.Type.Rank())
	at := op.Where(op.Lt(t, limit), op.Sub(op.Sub(limit, number(1, t)), t), t)
	return n.pick(x, op.Expand(at, x.Type.Shape), axis)
}

// pick returns the elements of x that idx selects along an axis, at the coordinates of idx's own elements otherwise.
func (n *node) pick(x, idx *ir.Node, axis int) *ir.Node {
	return op.Reshape(op.Gather(n.flat(x), n.positions(x.Type.Shape, idx, axis), 0), idx.Type.Shape)
}

// flat returns x as a vector.
func (n *node) flat(x *ir.Node) *ir.Node { return op.Reshape(x, ir.Shape{n.product(x.Type.Shape)}) }

// along returns the position on an axis of a tensor of that shape, i64 with 1 for the other axes.
func (n *node) along(shape ir.Shape, axis int) *ir.Node {
	t := ir.Type{DType: dtype.I64, Shape: make(ir.Shape, len(shape))}
	for i := range shape {
		t.Shape[i] = ir.Static(1)
	}
	axis = n.axis(axis, len(shape))
	t.Shape[axis] = shape[axis]
	return op.Iota(n.b.g, axis, t)
}

// at returns a vector as a tensor of that rank, along an axis.
func (n *node) at(x *ir.Node, axis, rank int) *ir.Node {
	shape := make(ir.Shape, rank)
	for i := range shape {
		shape[i] = ir.Static(1)
	}
	if axis < 0 || axis >= rank || x.Type.Rank() != 1 {
		n.fail("has %v along axis %d of a tensor of rank %d; want a vector", x.Type, axis, rank)
	}
	shape[axis] = x.Type.Shape[0]
	return op.Reshape(x, shape)
}

// positions returns the positions of elements in a tensor of that shape, as i64, flat. Each element of idx selects one:
// on the axis by its value, on the other axes by its own coordinates. On these, idx may be smaller than the tensor.
func (n *node) positions(shape ir.Shape, idx *ir.Node, axis int) *ir.Node {
	if idx.Type.Rank() != len(shape) {
		n.fail("indices are %v, of a tensor of rank %d; want the same rank", idx.Type, len(shape))
	}
	var sum *ir.Node
	for i := range shape {
		c := n.along(idx.Type.Shape, i)
		if i == axis {
			c = cast(idx, dtype.I64)
		}
		c = op.Mul(c, n.sizeNode(n.product(shape[i+1:]), dtype.I64))
		if sum == nil {
			sum = c
		} else {
			sum = op.Add(sum, c)
		}
	}
	return n.flat(op.Expand(sum, idx.Type.Shape))
}

// depth returns how many axes the rows of idx are coordinates of.
func (n *node) depth(idx *ir.Node) int {
	d := idx.Type.Shape[idx.Type.Rank()-1]
	if !d.IsStatic() || d.Const > ir.MaxRank {
		n.fail("indices have %v coordinates; want a number that is known", d)
	}
	return int(d.Const)
}

// rowOf returns the positions of coordinates along the last axis of idx.
func (n *node) rowOf(idx *ir.Node, shape ir.Shape) *ir.Node {
	last := idx.Type.Rank() - 1
	idx = cast(idx, dtype.I64)
	out := append(ir.Shape{}, idx.Type.Shape[:last]...)
	sum := op.Const(n.b.g, 0, ir.Type{DType: dtype.I64, Shape: out})
	for i := range shape {
		c := op.Reshape(op.Narrow(idx, last, i, 1), out)
		c = op.Where(op.Lt(c, number(0, c)), op.Add(c, n.sizeNode(shape[i], dtype.I64)), c)
		sum = op.Add(sum, op.Mul(c, n.sizeNode(n.product(shape[i+1:]), dtype.I64)))
	}
	return sum
}

func scatterElements(n *node) []*value {
	x, u := n.x(0), n.x(2)
	axis := n.axis(n.int("axis", 0), x.Type.Rank())
	rows := n.rowIndices(1, x.Type.Shape, axis)
	if axis == 0 && rows != nil && u.Type.Shape.Equal(n.x(1).Type.Shape) {
		return one(op.Scatter(x, rows, u, n.str("reduction", "none")))
	}
	idx := n.indices(1, x.Type.Shape[axis])
	at := n.positions(x.Type.Shape, idx, axis)
	return one(op.Reshape(n.scattered(n.flat(x), at, n.flat(u), idx.Type.Shape), x.Type.Shape))
}

// symbolicScatter writes into a list of sizes, as exporters do to change one size of a shape.
func symbolicScatter(n *node) []*value {
	v := n.in[0]
	if v.elems == nil || v.typ.Rank() != 1 || !n.in[1].isKnown() || n.str("reduction", "none") != "none" {
		return nil
	}
	updates, ok := n.in[2].list()
	idx := n.array(1).Ints
	if !ok || len(updates) != len(idx) {
		return nil
	}
	out := slices.Clone(v.elems)
	for k, i := range idx {
		if i < 0 {
			i += int64(len(out))
		}
		if i < 0 || i >= int64(len(out)) {
			n.fail("index %d is outside 0 to %d", idx[k], len(out)-1)
		}
		out[i] = updates[k]
	}
	return []*value{sizes(v.typ.DType, v.typ.Shape, out)}
}

// rowIndices returns the indices of whole rows if input i, the indices of elements of a tensor of that shape along an
// axis, is one index for each row, expanded to its elements. PyTorch exports index_add and the choice of experts so.
// The indices have the axes of the tensor up to this one. rowIndices returns nil for other indices.
func (n *node) rowIndices(i int, shape ir.Shape, axis int) *ir.Node {
	idx := n.x(i)
	rank := len(shape)
	if rank < 2 || idx.Type.Rank() != rank || !idx.Type.Shape[:axis].Equal(shape[:axis]) ||
		slices.ContainsFunc(n.in, func(v *value) bool { return v != nil && v.bound != nil }) {
		return nil
	}
	rows := idx
	if axis < rank-1 {
		if !idx.Is(op.ExpandDef) || !idx.Type.Shape[axis+1:].Equal(shape[axis+1:]) {
			return nil
		}
		rows = idx.In[0]
		if rows.Type.Rank() != rank || !rows.Type.Shape[:axis+1].Equal(idx.Type.Shape[:axis+1]) ||
			slices.ContainsFunc(rows.Type.Shape[axis+1:], func(d ir.Dim) bool { return !d.Is(1) }) {
			return nil
		}
		rows = op.Reshape(rows, rows.Type.Shape[:axis+1])
	}
	if rows == idx {
		return n.indices(i, shape[axis])
	}
	return op.Where(op.Lt(rows, number(0, rows)), op.Add(rows, n.sizeNode(shape[axis], rows.Type.DType)), rows)
}

// tensorScatter writes the rows of an update into a cache, from a position of each batch on.
func tensorScatter(n *node) []*value {
	x, u := n.x(0), n.x(1)
	axis := n.axis(n.int("axis", -2), x.Type.Rank())
	at := n.along(u.Type.Shape, axis)
	if n.has(2) {
		at = op.Add(at, n.at(cast(n.x(2), dtype.I64), 0, x.Type.Rank()))
	}
	if n.str("mode", "linear") == "circular" {
		at = op.Mod(at, n.sizeNode(x.Type.Shape[axis], dtype.I64))
	}
	at = op.Expand(at, u.Type.Shape)
	return one(op.Reshape(op.Scatter(n.flat(x), n.positions(x.Type.Shape, at, axis), n.flat(u), "none"), x.Type.Shape))
}
