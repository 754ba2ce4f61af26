package onnx

import (
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// maxRoiPool is MaxRoiPool: the largest value in each cell of a grid over each region (Girshick 2015). A region is
// [image, left, top, right, bottom], and its ends belong to it. A cell without pixels is 0.
func maxRoiPool(n *node) []*value {
	x, rois := n.x(0), n.x(1)
	grid, ok := n.list("pooled_shape")
	if !ok || len(grid) != 2 || grid[0] < 1 || grid[1] < 1 || x.Type.Rank() != 4 || rois.Type.Rank() != 2 ||
		!rois.Type.Shape[1].Is(5) {
		n.fail("has x %v, rois %v and pooled_shape %v; want x of rank 4, rois [count,5] and two sizes of 1 or more", x.Type,
			rois.Type, grid)
	}
	f := dtype.F32
	scale := n.float("spatial_scale", 1)
	regions, s := rois.Type.Shape[0], x.Type.Shape
	column := func(i int) *ir.Node { return op.Reshape(cast(op.Narrow(rois, 1, i, 1), f), ir.Shape{regions}) }
	rounded := func(v *ir.Node) *ir.Node { // halves go away from 0
		v = op.Mul(v, number(scale, v))
		return op.Mul(op.Sign(v), op.Floor(op.Add(op.Abs(v), number(0.5, v))))
	}
	// cells returns which positions [regions,cells,size] of an axis each cell has.
	cells := func(first, last *ir.Node, count int, size ir.Dim) *ir.Node {
		start := rounded(first)
		length := op.Max(op.Add(op.Sub(rounded(last), start), number(1, start)), number(1, start))
		each := op.Reshape(op.Div(length, number(float64(count), length)), ir.Shape{regions, ir.Static(1)})
		from := op.Reshape(start, ir.Shape{regions, ir.Static(1)})
		k := op.Iota(n.b.g, 1, ir.Type{DType: f, Shape: ir.ShapeOf(1, int64(count))})
		lo := op.Add(op.Floor(op.Mul(k, each)), from)
		hi := op.Add(op.Ceil(op.Mul(op.Add(k, number(1, k)), each)), from)
		at := op.Iota(n.b.g, 2, ir.Type{DType: f, Shape: ir.Shape{ir.Static(1), ir.Static(1), size}})
		shape := ir.Shape{regions, ir.Static(int64(count)), ir.Static(1)}
		return op.And(op.Ge(at, op.Reshape(lo, shape)), op.Lt(at, op.Reshape(hi, shape)))
	}
	images := op.Gather(x, cast(column(0), dtype.I64), 0) // [regions,C,H,W]
	single := ir.Static(1)
	none := op.Const(n.b.g, math.Inf(-1), ir.Type{DType: x.Type.DType})
	columns := cells(column(1), column(3), grid[1], s[3])
	w := ir.Static(int64(grid[1]))
	wide := op.Where(op.Reshape(columns, ir.Shape{regions, single, single, w, s[3]}),
		op.Reshape(images, ir.Shape{regions, s[1], s[2], single, s[3]}), none)
	y := op.ReduceMax(wide, false, 4) // [regions,C,H,w]
	rows := cells(column(2), column(4), grid[0], s[2])
	h := ir.Static(int64(grid[0]))
	tall := op.Where(op.Reshape(rows, ir.Shape{regions, single, h, s[2], single}),
		op.Reshape(y, ir.Shape{regions, s[1], single, s[2], w}), none)
	y = op.ReduceMax(tall, false, 3)
	return one(op.Where(op.Eq(y, none), number(0, y), y))
}
