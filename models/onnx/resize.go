package onnx

import (
	"math"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// Resize is separable. Each axis is resized by op resize if that computes the same. Otherwise it is resized by a gather
// (nearest) or by a product with a matrix of weights (linear, cubic).

// The ranks of inputs.
var (
	_ = ranks("1+ 1 1 1", "Resize", "Upsample")
)

var (
	_ = on("Resize", 10, resize)
	_ = on("Upsample", 7, resize)
)

// maxTable bounds the numbers of a table that the import computes.
const maxTable = 1 << 24

// resampler has the attributes of a resize, and of one axis.
type resampler struct {
	mode, coords, nearest string
	antialias, exclude    bool
	a                     float64 // of cubic
	in, out               int
	from, to              *ir.Node // the sizes where they are open; nil for in and out
	count                 ir.Dim   // the size of the result where it is open
	scale                 *ir.Node // f64, as the others
	least                 float64  // the scale is not smaller
	start, end            *ir.Node // of tf_crop_and_resize
	// whole says that align_corners aligns the elements of the result, as PyTorch does. ONNX's definition aligns the
	// ends of the axis times the scale, which differs where that is a fraction.
	whole bool
}

// resampler returns the attributes of the node.
func (n *node) resampler() resampler {
	r := resampler{mode: n.str("mode", "nearest"), coords: n.str("coordinate_transformation_mode", "half_pixel"),
		nearest: n.str("nearest_mode", "round_prefer_floor"), antialias: n.int("antialias", 0) != 0,
		exclude: n.int("exclude_outside", 0) != 0, a: n.float("cubic_coeff_a", -0.75)}
	r.whole = r.coords == "align_corners" && strings.HasPrefix(n.b.model.Producer, "pytorch")
	if r.mode == "bilinear" || r.mode == "trilinear" {
		r.mode = "linear"
	}
	if n.version < 11 || n.p.GetOpType() == "Upsample" {
		r.coords, r.nearest = "asymmetric", "floor"
	}
	if !slices.Contains(coordinates, r.coords) {
		n.fail("coordinate_transformation_mode is %q; allowed are %s", r.coords, strings.Join(coordinates, ", "))
	}
	return r
}

// coordinates has the values of coordinate_transformation_mode. tf_half_pixel_for_nn is of opsets before 13, but
// tf2onnx still writes it.
var coordinates = []string{"align_corners", "asymmetric", "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
	"tf_crop_and_resize", "tf_half_pixel_for_nn"}

// resizedAxes returns the axes of the attribute axes, all without it.
func (n *node) resizedAxes(rank int) []int {
	axes, ok := n.list("axes")
	if !ok {
		for i := range rank {
			axes = append(axes, i)
		}
	}
	return n.axes(axes, rank)
}

func resize(n *node) []*value {
	x := n.x(0)
	rank := x.Type.Rank()
	r := n.resampler()
	axes := n.resizedAxes(rank)
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
	num := func(v float64) *ir.Node { return op.Const(n.b.g, v, ir.TypeOf(dtype.F64)) }
	for i, a := range axes {
		size := x.Type.Shape[a]
		if size == target[a] && scales[i] == 1 && roi == nil {
			continue
		}
		if !size.IsStatic() || !target[a].IsStatic() {
			x = n.resizeOpenAxis(x, a, r, target[a], scales[i])
			continue
		}
		r.in, r.out, r.least, r.count = int(size.Const), int(target[a].Const), scales[i], target[a]
		table := func(make func(r resampler) *ir.Node) *ir.Node {
			return n.computed(func() *ir.Node {
				c := r
				c.scale = num(scales[i])
				if roi != nil {
					c.start, c.end = num(roi[i]), num(roi[len(axes)+i])
				}
				return make(c)
			})
		}
		if roi != nil {
			o := n.at(table(resampler.outside), a, rank)
			if outside != nil {
				o = op.Or(outside, o)
			}
			outside = o
		}
		x = n.resizeAxis(x, a, r, table)
	}
	if outside != nil {
		x = op.Where(outside, number(n.float("extrapolation_value", 0), x), x)
	}
	return one(x)
}

// resized returns the shape of the result, from sizes or scales, and the scale of each axis.
func (n *node) resized(x ir.Shape, axes []int, roi []float64) (target ir.Shape, scales []float64) {
	scaleAt, sizeAt := 2, 3
	if n.version < 11 || n.p.GetOpType() == "Upsample" {
		scaleAt, sizeAt = 1, -1
	}
	scales, target = make([]float64, len(axes)), append(ir.Shape{}, x...)
	if sizeAt > 0 && n.has(sizeAt) && !n.typeOf(sizeAt).Shape[0].Is(0) {
		if list := n.dims(sizeAt); len(list) != len(axes) {
			n.fail("has %d sizes; want one for each of %d axes", len(list), len(axes))
		}
		for i, d := range n.dims(sizeAt) {
			target[axes[i]] = d
		}
		n.keepAspect(x, target, axes)
		for i, a := range axes {
			switch {
			case x[a] == target[a]:
				scales[i] = 1
			case x[a].IsStatic() && target[a].IsStatic():
				scales[i] = float64(target[a].Const) / float64(x[a].Const)
			}
		}
		return target, scales
	}
	switch {
	case n.p.GetOpType() == "Upsample" && n.version < 9:
		list := n.attr("scales").GetFloats()
		if len(list) != len(axes) {
			n.fail("has %d scales; want one for each of %d axes", len(list), len(axes))
		}
		for i, v := range list {
			scales[i] = float64(v)
		}
	case !n.has(scaleAt):
		n.fail("has neither scales nor sizes")
	default:
		if list := n.array(scaleAt).Floats; copy(scales, list) != len(list) || len(list) != len(axes) {
			n.fail("has %d scales; want one for each of %d axes", len(list), len(axes))
		}
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
		return ir.Static(int64(math.Floor(float64(float32(d.Const) * float32(scale)))))
	}
	q, ok := ratio(scale)
	if ok {
		d, ok = d.Mul(q.num)
	}
	if ok {
		d, ok = d.FloorDiv(q.den)
	}
	if !ok {
		n.fail("scales a size of %v by %v; want a quotient of numbers up to %d, or a size that is fixed with --size", d,
			scale, maxRatio)
	}
	return d
}

// maxRatio bounds the numbers whose quotient is the scale of an open size.
const maxRatio = 100

// ratio returns a scale, which files have in 32 bits, as a quotient.
func ratio(scale float64) (elem, bool) {
	for den := 1.0; den <= maxRatio; den++ {
		if num := math.Round(scale * den); num <= maxRatio && num > 0 && float32(num/den) == float32(scale) {
			return elem{num: ir.Static(int64(num)), den: int64(den)}, true
		}
	}
	return elem{}, false
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
	if !r.whole && from.IsStatic() && to.IsStatic() && math.Abs(scale*float64(from.Const)-float64(to.Const)) > 1e-4 {
		return false // the scale is not the ratio of the sizes
	}
	if !r.whole && scale != 0 && !(from.IsStatic() && to.IsStatic()) && !isScaled(from, to, scale) {
		return false // it is not for some sizes
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

// isScaled reports whether a size is scale times another, for all sizes.
func isScaled(from, to ir.Dim, scale float64) bool {
	q, ok := ratio(scale)
	after, okAfter := to.Mul(ir.Static(q.den))
	before, okBefore := from.Mul(q.num)
	return ok && okAfter && okBefore && after == before
}

// positions returns the positions of the elements of the result among those of the input, f64.
func (r resampler) positions() *ir.Node {
	g := r.scale.Graph
	num := func(v float64) *ir.Node { return op.Const(g, v, ir.TypeOf(dtype.F64)) }
	in, out := r.sizes()
	x := op.Iota(g, 0, ir.Type{DType: dtype.F64, Shape: ir.Shape{r.count}})
	zero, last := op.Mul(x, num(0)), op.Sub(in, num(1))
	width := op.Mul(r.scale, in)
	if r.whole {
		width = out
	}
	switch r.coords {
	case "align_corners":
		one := op.Eq(width, num(1))
		by := op.Where(one, num(1), op.Sub(width, num(1)))
		return op.Where(one, zero, op.Div(op.Mul(x, last), by))
	case "asymmetric":
		return op.Div(x, r.scale)
	case "tf_crop_and_resize":
		if r.out <= 1 {
			return op.Add(zero, op.Mul(op.Add(r.start, r.end), op.Mul(num(0.5), last)))
		}
		span := op.Div(op.Mul(op.Sub(r.end, r.start), last), num(float64(r.out-1)))
		return op.Add(op.Mul(x, span), op.Mul(r.start, last))
	case "tf_half_pixel_for_nn":
		return op.Div(op.Add(x, num(0.5)), r.scale)
	case "pytorch_half_pixel":
		return op.Where(op.Le(out, num(1)), zero, op.Sub(op.Div(op.Add(x, num(0.5)), r.scale), num(0.5)))
	case "half_pixel_symmetric":
		offset := op.Mul(op.Sub(num(1), op.Div(out, width)), op.Div(in, num(2)))
		return op.Add(offset, op.Sub(op.Div(op.Add(x, num(0.5)), r.scale), num(0.5)))
	}
	return op.Sub(op.Div(op.Add(x, num(0.5)), r.scale), num(0.5))
}

// outside returns which elements of the result of an axis lie outside of the input.
func (r resampler) outside() *ir.Node {
	p := r.positions()
	return op.Or(op.Lt(p, number(0, p)), op.Gt(p, number(float64(r.in-1), p)))
}

// picks returns the elements that nearest takes.
func (r resampler) picks() *ir.Node {
	p := r.positions()
	half := number(0.5, p)
	switch r.nearest {
	case "floor":
		p = op.Floor(p)
	case "ceil":
		p = op.Ceil(p)
	case "round_prefer_ceil":
		p = op.Floor(op.Add(p, half))
	default:
		p = op.Ceil(op.Sub(p, half))
	}
	return op.Cast(r.inside(p), dtype.I32)
}

// sizes returns the sizes of the axis before and after, f64[].
func (r resampler) sizes() (in, out *ir.Node) {
	if r.from != nil {
		return r.from, r.to
	}
	return number(float64(r.in), r.scale), number(float64(r.out), r.scale)
}

// inside returns a position as the nearest one that the axis has.
func (r resampler) inside(p *ir.Node) *ir.Node {
	in, _ := r.sizes()
	return op.Min(op.Max(p, number(0, p)), op.Sub(in, number(1, p)))
}

// kernel returns the weight of elements at distance d.
func (r resampler) kernel(d *ir.Node) *ir.Node {
	num := func(v float64) *ir.Node { return number(v, d) }
	d = op.Abs(d)
	if r.mode == "linear" {
		return op.Max(num(0), op.Sub(num(1), d))
	}
	// the polynomial with these coefficients, the highest first
	poly := func(c ...float64) *ir.Node {
		y := num(c[0])
		for _, v := range c[1:] {
			y = op.Add(op.Mul(y, d), num(v))
		}
		return y
	}
	return op.Where(op.Le(d, num(1)), poly(r.a+2, -(r.a+3), 0, 1),
		op.Where(op.Lt(d, num(2)), poly(r.a, -5*r.a, 8*r.a, -4*r.a), num(0)))
}

// weights returns the share of each element of the input in each element of the result, [out,in] f64.
func (r resampler) weights() *ir.Node {
	g := r.scale.Graph
	reach := 1
	if r.mode == "cubic" {
		reach = 2
	}
	taps, stretch := reach, op.Const(g, 1, ir.TypeOf(dtype.F64))
	if r.antialias {
		taps = int(math.Ceil(float64(reach) / min(1, r.least)))
		stretch = op.Min(stretch, r.scale)
	}
	out, count := int64(r.out), int64(2*taps+2)
	p := op.Reshape(r.positions(), ir.ShapeOf(out, 1))
	j := op.Iota(g, 1, ir.TypeOf(dtype.F64, 1, count))
	at := op.Add(op.Floor(p), op.Sub(j, number(float64(taps), j)))
	v := r.kernel(op.Mul(op.Sub(at, p), stretch))
	if r.exclude {
		in := op.And(op.Ge(at, number(0, at)), op.Lt(at, number(float64(r.in), at)))
		v = op.Where(in, v, number(0, v))
	}
	v = op.Div(v, op.ReduceSum(v, true, 1))
	row := op.Iota(g, 0, ir.TypeOf(dtype.I64, out, 1))
	idx := op.Add(op.Cast(op.Clamp(at, 0, float64(r.in-1)), dtype.I64), op.Mul(row, number(float64(r.in), row)))
	flat := ir.ShapeOf(out * count)
	w := op.Scatter(op.Const(g, 0, ir.TypeOf(dtype.F64, out*int64(r.in))), op.Reshape(idx, flat), op.Reshape(v, flat),
		"add")
	return op.Reshape(w, ir.ShapeOf(out, int64(r.in)))
}

// resizeAxis resizes one axis. table makes the positions or weights.
func (n *node) resizeAxis(x *ir.Node, axis int, r resampler,
	table func(func(r resampler) *ir.Node) *ir.Node) *ir.Node {
	if r.mode == "nearest" {
		if r.out > maxTable {
			n.fail("resizes to %d elements; allowed are up to %d", r.out, maxTable)
		}
		return op.Gather(x, table(resampler.picks), axis)
	}
	if r.mode != "linear" && r.mode != "cubic" {
		n.fail("mode is %q; allowed are nearest, linear and cubic", r.mode)
	}
	if r.in < 1 || r.in*r.out > maxTable {
		n.fail("resizes %d elements to %d in mode %s; allowed are up to %d in their product", r.in, r.out, r.mode,
			maxTable)
	}
	d := x.Type.DType
	if !d.IsFloat() {
		x = op.Cast(x, dtype.F32)
	}
	w := table(func(r resampler) *ir.Node { return cast(r.weights(), x.Type.DType) })
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
	y := op.MatMul(flat, w, op.MatMulAttrs{TransB: true})
	y = op.Reshape(y, append(append(ir.Shape{}, s[:last]...), ir.Static(int64(r.out))))
	if axis != last {
		y = op.Transpose(y, perm...)
	}
	return cast(y, d)
}
