package onnx

import (
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

// Resize is separable. An axis is resized by op resize where that computes the same, else by a gather (nearest) or a
// product with a matrix of weights (linear, cubic).

var (
	_ = on("Resize", 10, resize)
	_ = on("Upsample", 7, resize)
)

// resampler has the attributes of a resize, and of one axis.
type resampler struct {
	mode, coords, nearest string
	antialias, exclude    bool
	a                     float64 // of cubic
	in, out               int
	scale                 float64
	start, end            float64 // of tf_crop_and_resize
}

func resize(n *node) []*value {
	x := n.x(0)
	rank := x.Type.Rank()
	r := resampler{mode: n.str("mode", "nearest"), coords: n.str("coordinate_transformation_mode", "half_pixel"),
		nearest: n.str("nearest_mode", "round_prefer_floor"), antialias: n.int("antialias", 0) != 0,
		exclude: n.int("exclude_outside", 0) != 0, a: n.float("cubic_coeff_a", -0.75)}
	if r.mode == "bilinear" || r.mode == "trilinear" {
		r.mode = "linear"
	}
	axes, ok := n.list("axes")
	if !ok {
		for i := range rank {
			axes = append(axes, i)
		}
	}
	axes = n.axes(axes, rank)
	if n.version < 11 || n.p.GetOpType() == "Upsample" {
		r.coords, r.nearest = "asymmetric", "floor"
	}
	var roi []float64
	if r.coords == "tf_crop_and_resize" {
		if roi = n.array(1).Floats; len(roi) != 2*len(axes) {
			n.fail("roi has %d numbers; want %d", len(roi), 2*len(axes))
		}
	}
	target, scales := n.resized(x.Type.Shape, axes, roi)
	if y := n.plainResize(x, target, r, axes, scales); y != nil {
		return one(y)
	}
	var outside *ir.Node
	for i, a := range axes {
		size := x.Type.Shape[a]
		if size == target[a] && scales[i] == 1 && roi == nil {
			continue
		}
		if !size.IsStatic() || !target[a].IsStatic() {
			n.fail("resizes axis %d from %v to %v in mode %s, coordinates %s; want sizes that are known", a, size,
				target[a], r.mode, r.coords)
		}
		r.in, r.out, r.scale = int(size.Const), int(target[a].Const), scales[i]
		if roi != nil {
			r.start, r.end = roi[i], roi[len(axes)+i]
			o := n.at(n.outside(r), a, rank)
			if outside != nil {
				o = op.Or(outside, o)
			}
			outside = o
		}
		x = n.resizeAxis(x, a, r)
	}
	if outside != nil {
		x = op.Where(outside, number(n.float("extrapolation_value", 0), x), x)
	}
	return one(x)
}

// outside returns which elements of the result of an axis lie outside of the input.
func (n *node) outside(r resampler) *ir.Node {
	out := tensor.NewArray(dtype.Bool, r.out)
	for k := range r.out {
		if p := r.at(k); p < 0 || p > float64(r.in-1) {
			out.Ints[k] = 1
		}
	}
	return n.b.at(made(out))
}

// resized returns the shape of the result, from sizes or scales, and the scale of each axis.
func (n *node) resized(x ir.Shape, axes []int, roi []float64) (target ir.Shape, scales []float64) {
	scaleAt, sizeAt := 2, 3
	if n.version < 11 || n.p.GetOpType() == "Upsample" {
		scaleAt, sizeAt = 1, -1
	}
	scales, target = make([]float64, len(axes)), append(ir.Shape{}, x...)
	if sizeAt > 0 && n.has(sizeAt) && !n.typeOf(sizeAt).Shape[0].Is(0) {
		for i, d := range n.dims(sizeAt) {
			target[axes[i]] = d
		}
		n.keepAspect(x, target, axes)
		for i, a := range axes {
			if x[a].IsStatic() && target[a].IsStatic() {
				scales[i] = float64(target[a].Const) / float64(x[a].Const)
			}
		}
		return target, scales
	}
	switch {
	case n.p.GetOpType() == "Upsample" && n.version < 9:
		for i, v := range n.attr("scales").GetFloats() {
			scales[i] = float64(v)
		}
	case !n.has(scaleAt):
		n.fail("has neither scales nor sizes")
	default:
		copy(scales, n.array(scaleAt).Floats)
	}
	for i, a := range axes {
		extent := 1.0
		if roi != nil {
			extent = roi[len(axes)+i] - roi[i]
		}
		target[a] = n.scaled(x[a], scales[i]*extent)
	}
	return target, scales
}

// scaled returns a size times a factor, rounded down.
func (n *node) scaled(d ir.Dim, scale float64) ir.Dim {
	if d.IsStatic() {
		return ir.Static(int64(math.Floor(float64(d.Const)*float64(float32(scale)) + 1e-9)))
	}
	q, ok := quotient(scale)
	if ok {
		d, ok = d.Mul(q.num)
	}
	if ok {
		d, ok = d.FloorDiv(q.den)
	}
	if !ok {
		n.fail("scales a size of %v by %v; want a whole number or the reciprocal of one", d, scale)
	}
	return d
}

// keepAspect changes the sizes so that the aspect ratio stays.
func (n *node) keepAspect(x, target ir.Shape, axes []int) {
	policy := n.str("keep_aspect_ratio_policy", "stretch")
	if policy == "stretch" {
		return
	}
	best := 0.0
	for i, a := range axes {
		if !x[a].IsStatic() || !target[a].IsStatic() {
			n.fail("keep_aspect_ratio_policy is %s; want sizes that are known", policy)
		}
		s := float64(target[a].Const) / float64(x[a].Const)
		if i == 0 || policy == "not_larger" && s < best || policy == "not_smaller" && s > best {
			best = s
		}
	}
	for _, a := range axes {
		target[a] = ir.Static(int64(math.Floor(best*float64(x[a].Const) + 0.5)))
	}
}

// plainCoords has the coordinates of op resize by their names in ONNX.
var plainCoords = map[string]string{"half_pixel": op.HalfPixel, "pytorch_half_pixel": op.HalfPixel,
	"asymmetric": op.Asymmetric, "align_corners": op.AlignCorners}

// plainResize returns the op resize of the last two axes, if it is the same; else nil.
func (n *node) plainResize(x *ir.Node, target ir.Shape, r resampler, axes []int, scales []float64) *ir.Node {
	rank := x.Type.Rank()
	a := op.ResizeAttrs{Mode: op.ResizeLinear, Coords: plainCoords[r.coords]}
	switch {
	case rank < 2 || a.Coords == "" || !target[:rank-2].Equal(x.Type.Shape[:rank-2]):
		return nil
	case r.mode == "nearest":
		a.Mode = op.ResizeNearest
	case r.mode != "linear" || !x.Type.DType.IsFloat():
		return nil
	}
	if r.coords == "pytorch_half_pixel" { // differs for an axis of one element
		for _, d := range target[rank-2:] {
			if lo, _ := n.b.g.Syms.Bounds(d); lo <= 1 {
				return nil
			}
		}
	}
	for i, axis := range axes {
		if !r.isPlain(x.Type.Shape[axis], target[axis], scales[i], axis < rank-2) {
			return nil
		}
	}
	return op.Resize(x, target[rank-2], target[rank-1], a)
}

// isPlain reports whether op resize resizes an axis as wanted. kept is set for an axis that keeps its size.
func (r resampler) isPlain(from, to ir.Dim, scale float64, kept bool) bool {
	if r.exclude || r.antialias && scale < 1 {
		return false
	}
	if from.IsStatic() && to.IsStatic() && math.Abs(scale*float64(from.Const)-float64(to.Const)) > 1e-4 {
		return false // the scale is not the ratio of the sizes
	}
	if kept || r.mode == "linear" {
		return true
	}
	whole := scale == math.Floor(scale) && scale >= 1
	switch r.coords {
	case "asymmetric":
		return r.nearest == "floor" || r.nearest == "round_prefer_floor" && whole && scale <= 2
	case "half_pixel":
		return r.nearest == "round_prefer_ceil" || r.nearest == "round_prefer_floor" && whole
	}
	return false
}

// at returns the position of element i of the result among those of the input.
func (r resampler) at(i int) float64 {
	x, width := float64(i), r.scale*float64(r.in)
	switch r.coords {
	case "align_corners":
		if width == 1 {
			return 0
		}
		return x * float64(r.in-1) / (width - 1)
	case "asymmetric":
		return x / r.scale
	case "tf_crop_and_resize":
		if r.out <= 1 {
			return 0.5 * (r.start + r.end) * float64(r.in-1)
		}
		return r.start*float64(r.in-1) + x*(r.end-r.start)*float64(r.in-1)/float64(r.out-1)
	case "pytorch_half_pixel":
		if r.out <= 1 {
			return 0
		}
	case "half_pixel_symmetric":
		offset := float64(r.in) / 2 * (1 - float64(r.out)/width)
		return offset + (x+0.5)/r.scale - 0.5
	}
	return (x+0.5)/r.scale - 0.5
}

// pick returns the element that nearest takes.
func (r resampler) pick(i int) int {
	x := r.at(i)
	var k float64
	switch r.nearest {
	case "floor":
		k = math.Floor(x)
	case "ceil":
		k = math.Ceil(x)
	case "round_prefer_ceil":
		k = math.Floor(x + 0.5)
	default:
		k = math.Ceil(x - 0.5)
	}
	return min(max(int(k), 0), r.in-1)
}

// kernel is the weight of an element at distance d.
func (r resampler) kernel(d float64) float64 {
	d = math.Abs(d)
	if r.mode == "linear" {
		return max(0, 1-d)
	}
	switch {
	case d <= 1:
		return ((r.a+2)*d-(r.a+3))*d*d + 1
	case d < 2:
		return ((r.a*d-5*r.a)*d+8*r.a)*d - 4*r.a
	}
	return 0
}

// weights returns the share of each element of the input in element i of the result.
func (r resampler) weights(i int) []float64 {
	w := make([]float64, r.in)
	x, stretch, reach := r.at(i), 1.0, 1.0
	if r.antialias && r.scale < 1 {
		stretch = r.scale
	}
	if r.mode == "cubic" {
		reach = 2
	}
	total, kept := 0.0, 0.0
	for k := math.Floor(x - reach/stretch); k <= math.Ceil(x+reach/stretch); k++ {
		v := r.kernel((k - x) * stretch)
		total += v
		if r.exclude && (k < 0 || k >= float64(r.in)) {
			continue
		}
		kept += v
		w[min(max(int(k), 0), r.in-1)] += v
	}
	by := kept
	if !r.exclude {
		by = total
	}
	for k := range w {
		w[k] /= by
	}
	return w
}

// resizeAxis resizes one axis.
func (n *node) resizeAxis(x *ir.Node, axis int, r resampler) *ir.Node {
	if r.mode == "nearest" {
		idx := tensor.NewArray(dtype.I32, r.out)
		for i := range r.out {
			idx.Ints[i] = int64(r.pick(i))
		}
		return op.Gather(x, n.b.at(made(idx)), axis)
	}
	if r.mode != "linear" && r.mode != "cubic" {
		n.fail("mode is %q; allowed are nearest, linear and cubic", r.mode)
	}
	d := x.Type.DType
	if !d.IsFloat() {
		x = op.Cast(x, dtype.F32)
	}
	w := tensor.NewArray(x.Type.DType, r.out, r.in)
	for i := range r.out {
		copy(w.Floats[i*r.in:], r.weights(i))
	}
	last := x.Type.Rank() - 1
	perm := make([]int, last+1)
	for i := range perm {
		perm[i] = i
	}
	perm[axis], perm[last] = last, axis
	if axis != last {
		x = op.Transpose(x, perm...)
	}
	s := x.Type.Shape
	flat := op.Reshape(x, ir.Shape{n.product(s[:last]), s[last]})
	y := op.MatMul(flat, n.b.at(made(w)), op.MatMulAttrs{TransB: true})
	y = op.Reshape(y, append(append(ir.Shape{}, s[:last]...), ir.Static(int64(r.out))))
	if axis != last {
		y = op.Transpose(y, perm...)
	}
	return cast(y, d)
}
