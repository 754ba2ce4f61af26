package onnx

import (
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// This file has ops that read images at positions between their elements: each position takes part in a few elements,
// which a gather reads.

// taps are the elements along one axis that positions read, and their weights: [batch, positions, taps].
type taps struct{ at, weight *ir.Node }

// gathered returns the elements of images x [B, size..., C] at the combinations of the taps of all axes, and the weight
// of each: [B, positions, combinations, C] and [B, positions, combinations].
func (n *node) gathered(x *ir.Node, axes []taps) (values, weight *ir.Node) {
	k := len(axes)
	s := x.Type.Shape
	table := op.Reshape(x, ir.Shape{s[0], n.product(s[1 : k+1]), s[k+1]})
	var at *ir.Node
	count := ir.Static(1)
	for i, t := range axes {
		shape := append(ir.Shape{}, t.at.Type.Shape[:2]...)
		for j := range k {
			d := ir.Static(1)
			if i == j {
				d = t.at.Type.Shape[2]
				count = n.product(ir.Shape{count, d})
			}
			shape = append(shape, d)
		}
		a := op.Mul(op.Reshape(t.at, shape), n.sizeNode(n.product(s[i+2:k+1]), dtype.I64))
		w := op.Reshape(t.weight, shape)
		if at != nil {
			a, w = op.Add(at, a), op.Mul(weight, w)
		}
		at, weight = a, w
	}
	flat := append(append(ir.Shape{}, axes[0].at.Type.Shape[:2]...), count)
	at, weight = op.Reshape(at, flat), op.Reshape(weight, flat)
	values = op.GatherBatched(table, op.Reshape(at, ir.Shape{flat[0], n.product(flat[1:])}), 1)
	return op.Reshape(values, append(flat, s[k+1])), weight
}

// sampled returns the weighted sums of elements, [B, positions, C].
func (n *node) sampled(x *ir.Node, axes []taps) *ir.Node {
	values, weight := n.gathered(x, axes)
	d := x.Type.DType
	w := op.Reshape(weight, append(append(ir.Shape{}, weight.Type.Shape...), ir.Static(1)))
	return cast(op.ReduceSum(op.Mul(cast(values, weight.Type.DType), w), false, 2), d)
}

// channelsLast returns [N,C,spatial...] as [N,spatial...,C].
func channelsLast(x *ir.Node) *ir.Node {
	perm := []int{0}
	for i := 2; i < x.Type.Rank(); i++ {
		perm = append(perm, i)
	}
	return op.Transpose(x, append(perm, 1)...)
}

// The ranks of inputs.
var (
	_ = ranks("4 2 1", "RoiAlign")
	_ = ranks("4 2", "MaxRoiPool")
	_ = ranks("3+ 3+", "GridSample")
	_ = ranks("3 1", "AffineGrid")
	_ = ranks("4 4 4 1 4", "DeformConv")
)

var (
	_ = register("GridSample", conversion{since: 16, convert: gridSample})
	_ = register("AffineGrid", conversion{since: 20, convert: affineGrid})
	_ = on("MaxRoiPool", 1, maxRoiPool)
	_ = register("RoiAlign", conversion{since: 10, convert: roiAlign,
		note: "sampling_ratio must be given; with 0 the number of samples depends on the data"})
	_ = register("DeformConv", conversion{since: 19, convert: deformConv, note: "images of two axes"})
)

// gridSample is GridSample, for images of any number of axes.
func gridSample(n *node) []*value {
	x, grid := n.x(0), n.x(1)
	k := x.Type.Rank() - 2
	if k < 1 || grid.Type.Rank() != k+2 || !grid.Type.Shape[k+1].Is(int64(k)) {
		n.fail("input is %v and grid %v; want [N,C,spatial...] and a grid with a position for each of its axes", x.Type,
			grid.Type)
	}
	a := op.GridSampleAttrs{Mode: strings.TrimPrefix(n.str("mode", "linear"), "bi"),
		Padding: n.str("padding_mode", op.GridZeros), Corners: n.int("align_corners", 0) != 0}
	if a.Padding != op.GridZeros && a.Padding != op.GridBorder && a.Padding != op.GridReflection {
		n.fail("padding_mode is %q; allowed are zeros, border and reflection", a.Padding)
	}
	if a.Mode != op.ResizeNearest && a.Mode != op.ResizeLinear && a.Mode != op.GridCubic {
		n.fail("mode is %q; allowed are nearest, linear and cubic", n.str("mode", "linear"))
	}
	d := x.Type.DType
	switch {
	case d == dtype.F64 || grid.Type.DType == dtype.F64:
		x, grid = cast(x, dtype.F64), cast(grid, dtype.F64)
	case !d.IsFloat():
		x, grid = cast(x, dtype.F32), cast(grid, dtype.F32)
	default:
		grid = cast(grid, dtype.F32)
	}
	return one(cast(op.GridSample(x, grid, a), d))
}

// joined concatenates nodes along the last axis.
func joined(xs []*ir.Node) *ir.Node {
	if len(xs) == 1 {
		return xs[0]
	}
	return op.Concat(xs[0].Type.Rank()-1, xs...)
}

// affineGrid is AffineGrid: the products of matrices with the positions of all elements.
func affineGrid(n *node) []*value {
	theta, size := n.x(0), n.dims(1)
	k := len(size) - 2
	if k != 2 && k != 3 {
		n.fail("size has %d numbers; want 4 or 5", len(size))
	}
	d := theta.Type.DType
	spatial := append(ir.Shape{}, size[2:]...)
	var rows []*ir.Node
	for i := k - 1; i >= 0; i-- {
		p := cast(n.along(spatial, i), d)
		count := n.sizeNode(spatial[i], d)
		if n.int("align_corners", 0) != 0 {
			p = op.Sub(op.Div(op.Mul(p, number(2, p)), op.Max(op.Sub(count, number(1, p)), number(1, p))), number(1, p))
		} else {
			p = op.Sub(op.Div(op.Add(op.Mul(p, number(2, p)), number(1, p)), count), number(1, p))
		}
		rows = append(rows, n.flat(op.Expand(p, spatial)))
	}
	rows = append(rows, op.Const(n.b.g, 1, rows[0].Type))
	y := op.MatMul(op.Stack(1, rows...), theta, op.MatMulAttrs{TransB: true}) // [N, positions, k]
	return one(op.Reshape(y, append(append(ir.Shape{size[0]}, spatial...), ir.Static(int64(k)))))
}

// roiAlign is RoiAlign: the mean or maximum of samples on a grid in each bin of a region.
func roiAlign(n *node) []*value {
	x, rois, batch := n.x(0), n.x(1), cast(n.x(2), dtype.I64)
	ratio := int64(n.int("sampling_ratio", 0))
	if ratio < 1 {
		n.fail("sampling_ratio is %d, so the number of samples depends on the regions; want 1 or more", ratio)
	}
	a := op.RoiAlignAttrs{Output: []int{n.int("output_height", 1), n.int("output_width", 1)}, Ratio: int(ratio),
		Scale: n.float("spatial_scale", 1), Max: n.str("mode", "avg") == "max",
		Half: n.version >= 16 && n.str("coordinate_transformation_mode", "half_pixel") == "half_pixel"}
	d := dtype.F32
	if x.Type.DType == dtype.F64 {
		d = dtype.F64
	}
	return one(op.RoiAlign(x, cast(rois, d), batch, a))
}

// deformConv is DeformConv: the elements that each tap reads, at positions of its own, times the weights.
func deformConv(n *node) []*value {
	x, w, offset := n.x(0), n.x(1), n.x(2)
	kernel := n.kernelOf(w.Type)
	if x.Type.Rank() != 4 || len(kernel) != 2 {
		n.fail("input is %v; allowed are images of two axes", x.Type)
	}
	s, o := x.Type.Shape, offset.Type.Shape
	groups, parts := int64(n.int("group", 1)), int64(n.int("offset_group", 1))
	stride, dilation := n.spatial("strides", 2, 1), n.spatial("dilations", 2, 1)
	before, _ := n.pads(2)
	count := int64(kernel[0] * kernel[1])
	if !s[1].IsStatic() || !w.Type.Shape[0].IsStatic() || s[1].Const%parts != 0 || s[1].Const%groups != 0 {
		n.fail("input is %v in %d groups and %d offset groups; want channels that are a multiple of both", x.Type, groups,
			parts)
	}
	each, outC := ir.Static(s[1].Const/parts), w.Type.Shape[0]
	batch := n.product(ir.Shape{s[0], ir.Static(parts)})
	d := dtype.F32
	if x.Type.DType == dtype.F64 {
		d = dtype.F64
	}
	grid := ir.Shape{s[0], ir.Static(parts), ir.Static(int64(kernel[0])), ir.Static(int64(kernel[1])), o[2], o[3]}
	outs := n.product(ir.Shape{ir.Static(count), o[2], o[3]})
	offset = op.Reshape(cast(offset, d), append(append(append(ir.Shape{}, grid[:4]...), ir.Static(2)), grid[4:]...))
	var axes []taps
	for i := range 2 {
		p := op.Reshape(op.Narrow(offset, 4, i, 1), grid)
		num := func(v float64) *ir.Node { return number(v, p) }
		p = op.Add(p, op.Mul(cast(n.along(grid, 2+i), d), num(float64(dilation[i]))))
		p = op.Add(p, op.Sub(op.Mul(cast(n.along(grid, 4+i), d), num(float64(stride[i]))), num(float64(before[i]))))
		p = op.Reshape(p, ir.Shape{batch, outs, ir.Static(1)})
		last := op.Sub(n.sizeNode(s[i+2], d), num(1))
		low := op.Floor(p)
		t := op.Sub(p, low)
		at, weight := []*ir.Node{low, op.Add(low, num(1))}, []*ir.Node{op.Sub(num(1), t), t}
		for j := range 2 {
			weight[j] = op.Where(op.Or(op.Lt(at[j], num(0)), op.Gt(at[j], last)), num(0), weight[j])
			at[j] = cast(op.Min(op.Max(at[j], num(0)), last), dtype.I64)
		}
		axes = append(axes, taps{joined(at), joined(weight)})
	}
	images := channelsLast(op.Reshape(x, ir.Shape{batch, each, s[2], s[3]}))
	y := n.sampled(images, axes) // [N*parts, taps*outputs, C/parts]
	if n.has(4) {
		mask := op.Reshape(n.x(4), ir.Shape{batch, outs, ir.Static(1)})
		y = op.Mul(y, cast(mask, y.Type.DType))
	}
	area := n.product(o[2:])
	y = op.Transpose(op.Reshape(y, ir.Shape{batch, ir.Static(count), area, each}), 0, 3, 1, 2)
	inner := ir.Static(s[1].Const / groups * count)
	y = op.Reshape(y, ir.Shape{s[0], ir.Static(groups), inner, area})
	rows := ir.Static(outC.Const / groups)
	y = op.MatMul(op.Reshape(w, ir.Shape{ir.Static(1), ir.Static(groups), rows, inner}), y, op.MatMulAttrs{})
	y = op.Reshape(y, ir.Shape{s[0], outC, o[2], o[3]})
	if n.has(3) {
		y = op.Add(y, channels(n.x(3), 4))
	}
	return one(y)
}
