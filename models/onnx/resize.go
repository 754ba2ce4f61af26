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
	scaleAt, sizeAt, roiAt := 2, 3, 1
	if n.version < 11 || n.p.GetOpType() == "Upsample" {
		r.coords, r.nearest, scaleAt, sizeAt, roiAt = "asymmetric", "floor", 1, -1, -1
	}
	scales := make([]float64, len(axes))
	target := append(ir.Shape{}, x.Type.Shape...)
	hasSizes := sizeAt > 0 && n.has(sizeAt) && !n.in[sizeAt].typ.Shape[0].Is(0)
	switch {
	case hasSizes:
		for i, d := range n.dims(sizeAt) {
			target[axes[i]] = d
		}
		n.keepAspect(x.Type.Shape, target, axes)
		for i, a := range axes {
			if x.Type.Shape[a].IsStatic() && target[a].IsStatic() {
				scales[i] = float64(target[a].Const) / float64(x.Type.Shape[a].Const)
			}
		}
	case n.p.GetOpType() == "Upsample" && n.version < 9:
		for i, v := range n.attr("scales").GetFloats() {
			scales[i] = float64(v)
		}
	default:
		if !n.has(scaleAt) {
			n.fail("has neither scales nor sizes")
		}
		copy(scales, n.array(scaleAt).Floats)
	}
	var roi []float64
	if r.coords == "tf_crop_and_resize" {
		roi = n.array(roiAt).Floats
		if len(roi) != 2*len(axes) {
			n.fail("roi has %d numbers; want %d", len(roi), 2*len(axes))
		}
	}
	if !hasSizes {
		for i, a := range axes {
			extent := 1.0
			if roi != nil {
				extent = roi[len(axes)+i] - roi[i]
			}
			target[a] = n.scaled(x.Type.Shape[a], scales[i]*extent)
		}
	}
	if y := n.plainResize(x, target, r, axes, scales); y != nil {
		return one(y)
	}
	var outside *ir.Node
	for i, a := range axes {
		size := x.Type.Shape[a]
		if size == target[a] && scales[i] == 1 && r.coords != "tf_crop_and_resize" {
			continue
		}
		if !size.IsStatic() || !target[a].IsStatic() {
			n.fail("resizes axis %d from %v to %v in mode %s, coordinates %s; want sizes that are known", a, size, target[a],
				r.mode, r.coords)
		}
		r.in, r.out, r.scale = int(size.Const), int(target[a].Const), scales[i]
		if roi != nil {
			r.start, r.end = roi[i], roi[len(axes)+i]
		}
		x = n.resizeAxis(x, a, r)
		if roi != nil {
			out := tensor.NewArray(dtype.Bool, r.out)
			for k := range r.out {
				if p := r.at(k); p < 0 || p > float64(r.in-1) {
					out.Ints[k] = 1
				}
			}
			o := n.at(n.b.at(made(out)), a, rank)
			if outside == nil {
				outside = o
			} else {
				outside = op.Or(outside, o)
			}
		}
	}
	if outside != nil {
		x = op.Where(outside, number(n.float("extrapolation_value", 0), x), x)
	}
	return one(x)
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

// plainResize returns the op resize of the last two axes, if it is the same; else nil.
func (n *node) plainResize(x *ir.Node, target ir.Shape, r resampler, axes []int, scales []float64) *ir.Node {
	rank := x.Type.Rank()
	if rank < 2 || !target[:rank-2].Equal(x.Type.Shape[:rank-2]) {
		return nil
	}
	a := op.ResizeAttrs{Mode: op.ResizeLinear}
	switch r.coords {
	case "half_pixel":
		a.Coords = op.HalfPixel
	case "asymmetric":
		a.Coords = op.Asymmetric
	case "align_corners":
		a.Coords = op.AlignCorners
	case "pytorch_half_pixel":
		a.Coords = op.HalfPixel
		for _, d := range target[rank-2:] {
			if lo, _ := n.b.g.Syms.Bounds(d); lo <= 1 {
				return nil
			}
		}
	default:
		return nil
	}
	for i, axis := range axes {
		from, to := x.Type.Shape[axis], target[axis]
		if r.exclude || r.antialias && scales[i] < 1 {
			return nil
		}
		static := from.IsStatic() && to.IsStatic()
		if static && math.Abs(scales[i]*float64(from.Const)-float64(to.Const)) > 1e-4 {
			return nil // a scale that is not the ratio of the sizes
		}
		if axis < rank-2 || r.mode == "linear" {
			continue
		}
		whole := scales[i] == math.Floor(scales[i]) && scales[i] >= 1
		switch {
		case r.mode != "nearest":
			return nil
		case r.coords == "asymmetric" && r.nearest == "floor":
		case r.coords == "asymmetric" && r.nearest == "round_prefer_floor" && whole && scales[i] <= 2:
		case r.coords == "half_pixel" && (r.nearest == "round_prefer_ceil" || whole && r.nearest == "round_prefer_floor"):
		default:
			return nil
		}
	}
	switch {
	case r.mode == "linear" && x.Type.DType.IsFloat():
	case r.mode == "nearest":
		a.Mode = op.ResizeNearest
	default:
		return nil
	}
	return op.Resize(x, target[rank-2], target[rank-1], a)
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
