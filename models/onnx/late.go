package onnx

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// lates has conversions for ops whose parameters, such as starts and pads, are known only when the model runs, although
// the declared type of the result gives its shape. They return nil where they do not apply.
var lates map[string]func(n *node) []*value

func init() { // the map refers to conversions that refer to it
	lates = map[string]func(n *node) []*value{"Expand": lateExpand, "Pad": latePad, "Range": lateRange,
		"Resize": lateResize, "Slice": lateSlice, "Trilu": lateTrilu, "Upsample": lateResize}
}

// late reports whether one of some inputs is not known.
func (n *node) late(inputs ...int) bool {
	for _, i := range inputs {
		if !n.isKnown(i) {
			return true
		}
	}
	return false
}

// element returns element i of a vector as a number of 64 bits.
func element(v *ir.Node, i int) *ir.Node {
	return op.Reshape(cast(op.Narrow(v, 0, i, 1), dtype.I64), ir.Shape{})
}

// perAxis returns, for each axis of a tensor of that rank, the element of v at the place at which axes has the axis.
// For other axes it returns otherwise. axes is nil for the first axes in order.
func (n *node) perAxis(v, axes *ir.Node, rank int, otherwise func(a int) *ir.Node) []*ir.Node {
	out := make([]*ir.Node, rank)
	for a := range out {
		out[a] = otherwise(a)
	}
	for i := range int(v.Type.Shape[0].Const) {
		e := element(v, i)
		if axes == nil {
			out[i] = e
			continue
		}
		at := element(axes, i)
		at = op.Where(op.Lt(at, number(0, at)), op.Add(at, number(float64(rank), at)), at)
		for a := range out {
			out[a] = op.Where(op.Eq(at, number(float64(a), at)), e, out[a])
		}
	}
	return out
}

// lateSlice is Slice: along each axis a gather of rising or falling positions.
func lateSlice(n *node) []*value {
	if n.version < 10 || !n.late(1, 2, 3, 4) {
		return nil
	}
	shape, ok := n.declaredShape(0)
	x := n.x(0)
	rank := x.Type.Rank()
	starts := n.x(1)
	if !ok || len(shape) != rank || !starts.Type.Shape[0].IsStatic() ||
		!n.has(3) && int(starts.Type.Shape[0].Const) > rank {
		return nil
	}
	axes := n.maybe(3)
	num := func(v float64) *ir.Node { return op.Const(n.b.g, v, ir.TypeOf(dtype.I64)) }
	first := n.perAxis(starts, axes, rank, func(int) *ir.Node { return num(0) })
	steps := make([]*ir.Node, rank)
	for a := range steps {
		steps[a] = num(1)
	}
	if n.has(4) {
		steps = n.perAxis(n.x(4), axes, rank, func(int) *ir.Node { return num(1) })
	}
	for a := range rank {
		size := n.sizeNode(x.Type.Shape[a], dtype.I64)
		last := op.Sub(size, num(1))
		s := op.Where(op.Lt(first[a], num(0)), op.Add(first[a], size), first[a])
		s = op.Max(op.Min(s, last), num(0)) // forwards, a start after the end gives nothing
		i := op.Iota(n.b.g, 0, ir.Type{DType: dtype.I64, Shape: ir.Shape{shape[a]}})
		i = op.Add(op.Mul(i, steps[a]), s)
		x = op.Gather(x, op.Max(op.Min(i, last), num(0)), a)
	}
	return one(x)
}

// lateExpand is Expand of a partial axis to a number of rows that is computed when the program runs. It equals the
// number of used rows, or there is one row, which is repeated. All other axes keep their sizes.
func lateExpand(n *node) []*value {
	b, x := n.in[0].bound, n.typeOf(0)
	if b == nil || !n.late(1) || n.in[1].numel() != int64(x.Rank()) {
		return nil
	}
	for i, d := range x.Shape {
		if lo, _ := n.b.g.Syms.Bounds(d); i != b.axis && lo <= 1 {
			return nil
		}
	}
	at := op.Iota(n.b.g, 0, ir.Type{DType: dtype.I64, Shape: ir.Shape{x.Shape[b.axis]}})
	at = op.Where(op.Eq(cast(b.count, dtype.I64), number(1, at)), number(0, at), at)
	return one(op.Gather(n.x(0), at, b.axis))
}

// latePad is Pad: along each axis a gather, and the constant outside.
func latePad(n *node) []*value {
	if n.version < 11 || !n.late(1, 2, 3) {
		return nil
	}
	x := n.x(0)
	rank := x.Type.Rank()
	shape, ok := n.declaredShape(0)
	if !n.late(1, 3) { // only the constant is not known
		return n.padWith(x)
	}
	count := n.typeOf(1).Shape[0]
	if !ok || len(shape) != rank || !count.IsStatic() || count.Const%2 != 0 || count.Const > int64(2*rank) {
		return nil
	}
	num := func(v float64) *ir.Node { return op.Const(n.b.g, v, ir.TypeOf(dtype.I64)) }
	before := n.perAxis(op.Narrow(n.x(1), 0, 0, int(count.Const/2)), n.maybe(3), rank,
		func(int) *ir.Node { return num(0) })
	mode := n.str("mode", "constant")
	var inside *ir.Node
	for a := range rank {
		size := n.sizeNode(x.Type.Shape[a], dtype.I64)
		last := op.Sub(size, num(1))
		i := op.Iota(n.b.g, 0, ir.Type{DType: dtype.I64, Shape: ir.Shape{shape[a]}})
		i = op.Sub(i, before[a])
		switch mode {
		case "constant":
			in := n.at(op.And(op.Ge(i, num(0)), op.Lt(i, size)), a, rank)
			if inside != nil {
				in = op.And(inside, in)
			}
			inside = in
		case "wrap":
			i = op.Mod(i, size)
		case "reflect":
			period := op.Max(op.Mul(last, num(2)), num(1))
			i = op.Mod(i, period)
			i = op.Min(i, op.Sub(period, i))
		case "edge":
		default:
			return nil
		}
		x = op.Gather(x, op.Max(op.Min(i, last), num(0)), a)
	}
	if inside != nil {
		x = op.Where(inside, x, n.fill(x))
	}
	return one(x)
}

// fill returns the constant of Pad as a number like x.
func (n *node) fill(x *ir.Node) *ir.Node {
	if n.has(2) {
		return op.Reshape(n.x(2), ir.Shape{})
	}
	return number(0, x)
}

// padWith converts Pad by a constant that is known only at run time. The added elements are those where a padded mask
// is false.
func (n *node) padWith(x *ir.Node) []*value {
	if n.str("mode", "constant") != "constant" {
		return nil
	}
	fill := n.in[2]
	n.in[2] = nil
	defer func() { n.in[2] = fill }()
	y := pad(n)[0].node
	data := n.in[0]
	ones := op.Const(n.b.g, 1, ir.Type{DType: dtype.Bool, Shape: x.Type.Shape})
	n.in[0] = &value{typ: ones.Type, node: ones}
	mask := pad(n)[0].node
	n.in[0], n.in[2] = data, fill
	return one(op.Where(mask, y, n.fill(y)))
}

// lateRange is Range whose number of elements is declared.
func lateRange(n *node) []*value {
	if !n.late(0, 1, 2) {
		return nil
	}
	shape, ok := n.declaredShape(0)
	if !ok || len(shape) != 1 {
		return nil
	}
	d := n.typeOf(0).DType
	i := op.Iota(n.b.g, 0, ir.Type{DType: dtype.F64, Shape: shape})
	step, start := cast(n.x(2), dtype.F64), cast(n.x(0), dtype.F64)
	if d.IsInt() {
		i, step, start = cast(i, d), n.x(2), n.x(0)
	}
	return one(cast(op.Add(op.Mul(i, step), start), d))
}

// lateTrilu is Trilu with a diagonal that is not known.
func lateTrilu(n *node) []*value {
	if !n.late(1) {
		return nil
	}
	x := n.x(0)
	rank := x.Type.Rank()
	if rank < 2 {
		return nil
	}
	r, c := n.along(x.Type.Shape, rank-2), n.along(x.Type.Shape, rank-1)
	diagonal := op.Add(r, op.Reshape(cast(n.x(1), dtype.I64), ir.Shape{}))
	keep := op.Le(c, diagonal)
	if n.int("upper", 1) != 0 {
		keep = op.Ge(c, diagonal)
	}
	return one(op.Where(keep, x, number(0, x)))
}

// lateResize is Resize with scales, sizes or a region that are not known. The declared type gives the sizes.
func lateResize(n *node) []*value {
	scaleAt, sizeAt := 2, 3
	if n.version < 11 || n.p.GetOpType() == "Upsample" {
		scaleAt, sizeAt = 1, -1
	}
	r := n.resampler()
	crop := r.coords == "tf_crop_and_resize"
	if !n.late(scaleAt) && (sizeAt < 0 || !n.late(sizeAt)) && !(crop && n.late(1)) {
		return nil
	}
	shape, ok := n.declaredShape(0)
	x := n.x(0)
	rank := x.Type.Rank()
	if !ok || len(shape) != rank {
		return nil
	}
	axes := n.resizedAxes(rank)
	var scales []*ir.Node
	if sizeAt > 0 && n.has(sizeAt) && !n.typeOf(sizeAt).Shape[0].Is(0) {
		scales = n.scalesOf(n.x(sizeAt), x.Type.Shape, axes)
	} else if n.has(scaleAt) {
		for i := range axes {
			scales = append(scales, float64Of(n.x(scaleAt), i))
		}
	} else {
		return nil
	}
	var outside *ir.Node
	for i, a := range axes {
		size := x.Type.Shape[a]
		if !size.IsStatic() || !shape[a].IsStatic() {
			return nil
		}
		r.in, r.out, r.count = int(size.Const), int(shape[a].Const), shape[a]
		r.scale = scales[i]
		r.least = float64(r.out) / float64(r.in)
		if crop {
			r.start, r.end = float64Of(n.x(1), i), float64Of(n.x(1), len(axes)+i)
			o := n.at(r.outside(), a, rank)
			if outside != nil {
				o = op.Or(outside, o)
			}
			outside = o
		} else if r.in == r.out && r.in == 1 {
			continue
		}
		x = n.resizeAxis(x, a, r, func(make func(resampler) *ir.Node) *ir.Node { return make(r) })
	}
	if outside != nil {
		x = op.Where(outside, number(n.float("extrapolation_value", 0), x), x)
	}
	return one(x)
}

// float64Of returns element i of a vector as a number of 64 bits.
func float64Of(v *ir.Node, i int) *ir.Node {
	return op.Reshape(cast(op.Narrow(v, 0, i, 1), dtype.F64), ir.Shape{})
}

// scalesOf returns the scale of each axis from wanted sizes, with the aspect ratio that the node keeps.
func (n *node) scalesOf(want *ir.Node, x ir.Shape, axes []int) []*ir.Node {
	var out []*ir.Node
	var best *ir.Node
	policy := n.str("keep_aspect_ratio_policy", "stretch")
	for i, a := range axes {
		s := op.Div(float64Of(want, i), n.sizeNode(x[a], dtype.F64))
		out = append(out, s)
		switch {
		case best == nil:
			best = s
		case policy == "not_larger":
			best = op.Min(best, s)
		default:
			best = op.Max(best, s)
		}
	}
	if policy == "stretch" {
		return out
	}
	for i, a := range axes { // the ratio of the rounded size
		size := n.sizeNode(x[a], dtype.F64)
		target := op.Floor(op.Add(op.Mul(best, size), number(0.5, size)))
		out[i] = op.Div(target, size)
	}
	return out
}
