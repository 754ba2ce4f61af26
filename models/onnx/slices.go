package onnx

import (
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// cut is the range of an axis that a slice takes.
type cut struct {
	axis       int
	start, end ir.Dim
	step       int64
}

// cuts returns the ranges of a slice.
func (n *node) cuts(rank int) []cut {
	var starts, ends, steps []ir.Dim
	var axes []int
	if n.version < 10 {
		s, _ := n.list("starts")
		e, _ := n.list("ends")
		for i := range s {
			starts, ends = append(starts, ir.Static(int64(s[i]))), append(ends, ir.Static(int64(e[i])))
		}
		axes, _ = n.list("axes")
	} else {
		starts, ends = n.dims(1), n.dims(2)
		if n.has(3) {
			axes = n.ints(3)
		}
		if n.has(4) {
			steps = n.dims(4)
		}
	}
	if axes == nil {
		for i := range starts {
			axes = append(axes, i)
		}
	}
	if len(ends) != len(starts) || len(axes) != len(starts) || steps != nil && len(steps) != len(starts) {
		n.fail("starts, ends, axes and steps have %d, %d, %d and %d elements; want the same number of each", len(starts),
			len(ends), len(axes), len(steps))
	}
	var out []cut
	for i, a := range n.axes(axes, rank) {
		c := cut{a, starts[i], ends[i], 1}
		if steps != nil {
			if !steps[i].IsStatic() || steps[i].Const == 0 {
				n.fail("step is %v; want a number that is not 0", steps[i])
			}
			c.step = steps[i].Const
		}
		out = append(out, c)
	}
	return out
}

// limit returns a position as one from 0 to size, or from -1 to size-1 of a slice that runs backwards.
func (n *node) limit(p, size ir.Dim, backwards bool) ir.Dim {
	syms := n.b.g.Syms
	lo, hi := syms.Bounds(p)
	if hi < 0 && !(hi <= -ir.MaxCoef) { // from the end
		p, _ = p.Add(size)
		if lo, hi = syms.Bounds(p); lo < 0 && hi >= 0 {
			n.needs(p, "position %v of an axis of size %v may be before its beginning", p, size)
		}
	} else if lo < 0 && hi >= 0 {
		n.fail("position %v may or may not be negative; choose a range with --size in which its sign is known", p)
	}
	least, most := ir.Static(0), size
	if backwards {
		least, most = ir.Static(-1), n.plus(size, -1)
	}
	if lo >= least.Const {
		rest, ok := most.Sub(p)
		rlo, rhi := syms.Bounds(rest)
		switch {
		case p == most || ok && rlo >= 0:
			return p
		case p.IsStatic() && p.Const >= ir.MaxCoef || ok && rhi <= 0 || p.IsStatic() && p.Const > 1<<30:
			return most
		case ok && p.IsStatic():
			n.needs(rest, "position %v is within an axis of size %v for some sizes and after its end for others", p, size)
		}
		if ok {
			n.needs(rest, "position %v of an axis of size %v may be after its end", p, size)
		}
		n.fail("position %v of an axis of size %v may be after its end; choose a smaller range with --size", p, size)
	}
	if hi <= least.Const {
		return least
	}
	n.fail("position %v of an axis of size %v may be before its beginning", p, size)
	return p
}

// sum returns a + b.
func (n *node) sum(a, b ir.Dim) ir.Dim {
	s, ok := a.Add(b)
	if !ok {
		n.fail("the sum of the sizes %v and %v is too large a formula", a, b)
	}
	return s
}

func (n *node) plus(d ir.Dim, k int64) ir.Dim { return n.sum(d, ir.Static(k)) }

// bounds returns the first position and the number of positions of a cut.
func (n *node) bounds(c cut, size ir.Dim) (start, count ir.Dim) {
	start, end := n.limit(c.start, size, c.step < 0), ir.Dim{}
	if c.step < 0 && c.end.IsStatic() && c.end.Const <= -ir.MaxCoef {
		end = ir.Static(-1)
	} else {
		end = n.limit(c.end, size, c.step < 0)
	}
	length, ok := end.Sub(start)
	by := c.step
	if c.step < 0 {
		length, ok = start.Sub(end)
		by = -by
	}
	if ok {
		length, ok = length.CeilDiv(by)
	}
	if !ok {
		n.fail("the length of the slice from %v to %v is too large a formula", start, end)
	}
	lo, hi := n.b.g.Syms.Bounds(length)
	switch {
	case hi <= 0:
		length = ir.Static(0)
	case lo < 0:
		n.fail("the length %v of a slice may be negative", length)
	}
	return start, length
}

// slice is Slice.
func slice(n *node) []*value {
	x := n.x(0)
	for _, c := range n.cuts(x.Type.Rank()) {
		x = n.cutAxis(x, c)
	}
	return []*value{{typ: x.Type, node: x}}
}

// cutAxis returns the range of an axis of x.
func (n *node) cutAxis(x *ir.Node, c cut) *ir.Node {
	size := x.Type.Shape[c.axis]
	start, count := n.bounds(c, size)
	switch {
	case count == size && c.step == 1:
		return x
	case c.step == 1 && start.IsStatic() && count.IsStatic():
		return op.Narrow(x, c.axis, int(start.Const), int(count.Const))
	case c.step == -1 && count == size:
		return op.Flip(x, c.axis)
	}
	idx := op.Iota(n.b.g, 0, ir.Type{DType: dtype.I32, Shape: ir.Shape{count}})
	if c.step != 1 {
		idx = op.Mul(idx, number(float64(c.step), idx))
	}
	if !start.Is(0) {
		idx = op.Add(idx, n.sizeNode(start, dtype.I32))
	}
	return op.Gather(x, idx, c.axis)
}

func symbolicSlice(n *node) []*value {
	v := n.in[0]
	if v.elems == nil || v.typ.Rank() != 1 {
		return nil
	}
	out := v.elems
	for _, c := range n.cuts(1) {
		start, count := n.bounds(c, ir.Static(int64(len(out))))
		if !start.IsStatic() || !count.IsStatic() {
			return nil
		}
		var next []elem
		for k := range count.Const {
			next = append(next, out[start.Const+k*c.step])
		}
		out = next
	}
	return []*value{sizes(v.typ.DType, ir.ShapeOf(int64(len(out))), out)}
}

// split is Split.
func split(n *node) []*value {
	x := n.x(0)
	axis := n.axis(n.int("axis", 0), x.Type.Rank())
	size := x.Type.Shape[axis]
	sizes, ok := n.list("split")
	if n.version >= 13 {
		if ok = n.has(1); ok {
			if list := n.dims(1); slices.ContainsFunc(list, func(d ir.Dim) bool { return !d.IsStatic() }) {
				return n.splitOpen(x, axis, list)
			}
			sizes = n.ints(1)
		}
	}
	if !ok {
		parts := len(n.p.GetOutput())
		if n.version >= 18 && n.attr("num_outputs") != nil {
			parts = n.int("num_outputs", 1)
		}
		if parts != len(n.p.GetOutput()) {
			n.fail("num_outputs is %d; the node has %d outputs", parts, len(n.p.GetOutput()))
		}
		if !size.IsStatic() {
			return n.splitOpen(x, axis, n.equalParts(size, parts))
		}
		each := (int(size.Const) + parts - 1) / parts
		for left := int(size.Const); len(sizes) < parts; left -= each {
			sizes = append(sizes, min(each, max(left, 0)))
		}
	}
	return many(op.SplitSizes(x, axis, sizes...)...)
}

// equalParts returns the sizes of parts of an axis of open size. The last may be smaller.
func (n *node) equalParts(size ir.Dim, parts int) []ir.Dim {
	each, ok := size.CeilDiv(int64(parts))
	all, ok2 := each.Mul(ir.Static(int64(parts - 1)))
	last, ok3 := size.Sub(all)
	if !ok || !ok2 || !ok3 {
		n.fail("a part of %v is too large a formula", size)
	}
	return append(slices.Repeat([]ir.Dim{each}, parts-1), last)
}

// splitOpen returns parts of an axis, whose sizes are open.
func (n *node) splitOpen(x *ir.Node, axis int, sizes []ir.Dim) []*value {
	var out []*ir.Node
	start := ir.Static(0)
	for _, d := range sizes {
		if lo, _ := n.b.g.Syms.Bounds(d); lo < 0 {
			n.needs(d, "part %d of axis %d, of size %v, may be smaller than nothing", len(out), axis, d)
			n.fail("part %d of axis %d has the size %v, which may be negative; want sizes that are fixed with --size", len(out),
				axis, d)
		}
		end := n.sum(start, d)
		out = append(out, n.cutAxis(x, cut{axis, start, end, 1}))
		start = end
	}
	return many(out...)
}

// pad is Pad.
func pad(n *node) []*value {
	x := n.x(0)
	rank := x.Type.Rank()
	var amounts []int
	fill := n.float("value", 0)
	if n.version < 11 {
		amounts, _ = n.list("pads")
	} else {
		amounts = n.ints(1)
		if n.has(2) {
			fill = n.array(2).At(0)
		}
	}
	axes := make([]int, rank)
	for i := range axes {
		axes[i] = i
	}
	if n.has(3) {
		axes = n.axes(n.ints(3), rank)
	}
	if len(amounts) != 2*len(axes) {
		n.fail("pads has %d numbers; want %d", len(amounts), 2*len(axes))
	}
	before, after := make([]int, rank), make([]int, rank)
	for i, a := range axes {
		before[a], after[a] = amounts[i], amounts[len(axes)+i]
	}
	for a := range rank { // negative amounts cut
		lo, hi := max(0, -before[a]), max(0, -after[a])
		if lo+hi > 0 {
			x = n.cutEnds(x, a, lo, hi)
		}
		before[a], after[a] = max(0, before[a]), max(0, after[a])
	}
	switch mode := n.str("mode", "constant"); mode {
	case "constant":
		return one(op.Pad(x, before, after, fill))
	case "reflect", "edge", "wrap":
		for a := range rank {
			if before[a]+after[a] > 0 {
				x = n.padAxis(x, a, before[a], after[a], mode)
			}
		}
		return one(x)
	default:
		n.fail("mode is %q; allowed are constant, reflect, edge and wrap", mode)
		return nil
	}
}

// padAxis continues an axis by its own elements, which a gather selects.
func (n *node) padAxis(x *ir.Node, axis, before, after int, mode string) *ir.Node {
	size := x.Type.Shape[axis]
	d := dtype.I32
	total := n.plus(size, int64(before+after))
	i := op.Iota(n.b.g, 0, ir.Type{DType: d, Shape: ir.Shape{total}})
	i = op.Sub(i, number(float64(before), i))
	last := op.Sub(n.sizeNode(size, d), number(1, i))
	switch mode {
	case "edge":
		i = op.Min(op.Max(i, number(0, i)), last)
	case "wrap":
		i = op.Mod(i, n.sizeNode(size, d))
	default: // reflect: the distance to the nearest multiple of twice the last position
		if size.Is(1) {
			i = op.Mul(i, number(0, i))
			break
		}
		period := op.Mul(last, number(2, i))
		i = op.Mod(i, period)
		i = op.Min(i, op.Sub(period, i))
	}
	return op.Gather(x, i, axis)
}
