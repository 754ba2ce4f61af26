package pass

import (
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// layoutOf returns the layout of a convolution or a pool.
func layoutOf(n *ir.Node) (layout string, ok bool) {
	a, ok := n.Attrs.(op.ImageAttrs)
	if !ok {
		return "", false
	}
	return a.ImageLayout(), true
}

// withAxes returns the attributes of an op that is turned by renumbering axes. ok is false for other ops. Lists with
// a number for each axis are in the order of order, axes become at[axis].
func withAxes(n *ir.Node, order, at []int) (attrs any, ok bool) {
	reordered := func(list []int) []int {
		out := make([]int, len(list))
		for i := range list {
			out[i] = list[order[i]]
		}
		return out
	}
	renumbered := func(list []int) []int {
		out := make([]int, len(list))
		for i, a := range list {
			out[i] = at[a]
		}
		slices.Sort(out)
		return out
	}
	switch a := n.Attrs.(type) {
	case op.ConcatAttrs:
		a.Axis = at[a.Axis]
		return a, n.Is(op.ConcatDef)
	case op.NarrowAttrs:
		a.Axis = at[a.Axis]
		return a, n.Is(op.NarrowDef)
	case op.SoftmaxAttrs:
		a.Axis = at[a.Axis]
		return a, n.Is(op.SoftmaxDef) || n.Is(op.LogSoftmaxDef)
	case op.PadAttrs:
		a.Before, a.After = reordered(a.Before), reordered(a.After)
		return a, n.Is(op.PadDef)
	case op.FlipAttrs:
		a.Axes = renumbered(a.Axes)
		return a, n.Is(op.FlipDef)
	case op.ReduceAttrs:
		a.Axes = renumbered(a.Axes)
		return a, true
	case op.ArgAttrs:
		a.Axis = at[a.Axis]
		return a, n.Is(op.ArgMaxDef) || n.Is(op.ArgMinDef)
	}
	return nil, false
}

// keepsRank reports whether an op that withAxes knows keeps the axes of its operand.
func keepsRank(n *ir.Node) bool {
	switch a := n.Attrs.(type) {
	case op.ReduceAttrs:
		return a.KeepDims
	case op.ArgAttrs:
		return a.KeepDims
	}
	return true
}

// dropped returns the axes that a reduction drops, or nil.
func dropped(n *ir.Node) []int {
	switch a := n.Attrs.(type) {
	case op.ReduceAttrs:
		if !a.KeepDims {
			return a.Axes
		}
	case op.ArgAttrs:
		if !a.KeepDims && (n.Is(op.ArgMaxDef) || n.Is(op.ArgMinDef)) {
			return []int{a.Axis}
		}
	}
	return nil
}

// onlyOnes reports whether a permutation moves only axes of 1, so that the bytes stay where they are.
func onlyOnes(shape ir.Shape, p []int) bool {
	last := -1
	for _, a := range p {
		if shape[a].Is(1) {
			continue
		}
		if a < last {
			return false
		}
		last = a
	}
	return true
}

// channelsOf returns the number of axes of channels of n if it can be turned, else 0.
func (t *turning) channelsOf(n *ir.Node) int {
	rank := n.Type.Rank()
	if rank < 3 || n.Op == ir.ResultDef {
		return 0
	}
	if layout, ok := layoutOf(n); ok {
		if op.ChannelsLast(layout) == "" {
			return 0
		}
		return 1
	}
	switch {
	case n.Is(op.BatchNormDef), isWholeNorm(n):
		return channelsOfNorm(n)
	case n.Is(op.ExpandDef) && n.In[0].Type.Rank() == rank:
		return 1
	case n.Is(op.TransposeDef):
		return t.channelsOfTranspose(n)
	case n.Is(op.ReshapeDef):
		return t.channelsOfReshape(n)
	}
	k := 1
	for _, x := range n.Operands() {
		if x.Type.Rank() == rank {
			k = max(k, t.channels[x.ID])
		}
	}
	if n.Op.Elementwise && !n.Is(op.ElementwiseRegionDef) {
		return k
	}
	if a, ok := n.Attrs.(op.ResizeAttrs); ok && a.Layout == "" && rank > 3 && k == 1 {
		return 1
	}
	none := make([]int, rank)
	if _, ok := withAxes(n, none, make([]int, ir.MaxRank)); ok && keepsRank(n) {
		return k
	}
	return 0
}

// isWholeNorm reports whether n normalises all elements of an image together, so that their order does not matter.
func isWholeNorm(n *ir.Node) bool {
	if !n.Is(op.GroupNormDef) || n.Attrs.(op.GroupNormAttrs).Groups != 1 {
		return false
	}
	_, ok := n.Type.Shape[1:].Numel()
	return ok
}

// channelsOfNorm returns 1 for the types of a norm whose steps need not be rounded once only.
func channelsOfNorm(n *ir.Node) int {
	if n.Type.DType != dtype.F32 && n.Type.DType != dtype.F64 {
		return 0
	}
	return 1
}

// channelsOfTranspose returns the number of axes of channels of x if the transpose exchanges only these, as in a
// shuffle of channels, else 1.
func (t *turning) channelsOfTranspose(n *ir.Node) int {
	p, k := perm(n), t.channels[n.In[0].ID]
	for i, a := range p {
		if i != a && (i < 1 || i > k || a < 1 || a > k) {
			return 1
		}
	}
	return max(k, 1)
}

// channelsOfReshape returns the number of axes of channels of a reshape that keeps the batch, and channels and other
// axes apart. It returns 0 for other reshapes.
func (t *turning) channelsOfReshape(n *ir.Node) int {
	from, to := n.In[0].Type.Shape, n.Type.Shape
	k := max(t.channels[n.In[0].ID], 1)
	if len(from) <= k || from[0] != to[0] {
		return 0
	}
	channels, ok := from[1 : 1+k].Numel()
	if !ok {
		return 0
	}
	for m := 1; m < len(to); m++ {
		if d, ok := to[1 : 1+m].Numel(); ok && d == channels {
			a, okA := from[1+k:].Numel()
			b, okB := to[1+m:].Numel()
			if okA && okB && a == b {
				return m
			}
		}
	}
	return 0
}

// moves reports whether a node that is turned reads operand k turned. It reads others as they are.
func moves(n *ir.Node, k int) bool {
	x := n.In[k]
	switch _, ok := layoutOf(n); {
	case ok:
		return k == 0 || k >= op.FusedConvAddend
	case n.Is(op.BatchNormDef, op.GroupNormDef):
		return k == 0
	case n.Is(op.ReshapeDef):
		return true
	}
	return x.Type.Rank() == n.Type.Rank()
}

// follows reports whether n, which is not turned itself, reads its operand in any layout: a transpose, or a reduction
// that leaves axes in the old order.
func (t *turning) follows(n *ir.Node) bool {
	if n.Is(op.TransposeDef) {
		return true
	}
	drops := dropped(n)
	if drops == nil || t.channels[n.In[0].ID] == 0 {
		return false
	}
	var kept []int
	for _, a := range toLast(n.In[0].Type.Rank(), t.channels[n.In[0].ID]) {
		if !slices.Contains(drops, a) {
			kept = append(kept, a)
		}
	}
	return slices.IsSorted(kept)
}

// follow adds a node for which follows is true. It returns nil if it is copied.
func (b *turnedGraph) follow(n *ir.Node) *ir.Node {
	x := n.In[0]
	if !b.turned[x.ID] {
		return nil
	}
	k, rank := b.channels[x.ID], x.Type.Rank()
	if n.Is(op.TransposeDef) {
		return b.permute(b.made[x.ID], compose(perm(n), toFirst(rank, k)))
	}
	attrs, _ := withAxes(n, toLast(rank, k), toFirst(rank, k))
	return b.out.AddDeclared(n.Op, attrs, n.Type, b.made[x.ID])
}

// turn adds n with its k axes of channels last.
func (b *turnedGraph) turn(n *ir.Node, k int) *ir.Node {
	rank := n.Type.Rank()
	order := toLast(rank, k)
	shape := permuted(n.Type.Shape, order)
	if a, ok := n.Attrs.(op.ImageAttrs); ok {
		last := op.ChannelsLast(a.ImageLayout())
		return b.out.Add(n.Op, a.WithImageLayout(last), b.operands(n, k)...)
	}
	switch x := n.In[0]; {
	case n.Is(op.TransposeDef):
		p := compose(order, perm(n))
		if b.turned[x.ID] {
			return b.permute(b.made[x.ID], compose(p, toFirst(rank, b.channels[x.ID])))
		}
		return b.permute(b.lookup(x), p)
	case n.Is(op.ReshapeDef):
		return reshaped(b.last(x, max(b.channels[x.ID], 1)), shape)
	case n.Is(op.ExpandDef):
		return op.Expand(b.last(x, k), shape)
	case n.Is(op.BatchNormDef):
		in := n.MapIn(b.lookup)
		scale := batchNormScale(n, in)
		return op.Add(op.Mul(op.Sub(b.last(x, k), in[3]), scale), in[2])
	case n.Is(op.GroupNormDef):
		return b.wholeNorm(n, b.last(x, k))
	case n.Op.Elementwise:
		return b.out.AddDeclared(n.Op, n.Attrs, ir.Type{DType: n.Type.DType, Shape: shape}, b.operands(n, k)...)
	}
	attrs, _ := withAxes(n, order, inverted(order))
	if a, ok := n.Attrs.(op.ResizeAttrs); ok {
		a.Layout = op.HWC
		attrs = a
	}
	return b.out.AddDeclared(n.Op, attrs, ir.Type{DType: n.Type.DType, Shape: shape}, b.operands(n, k)...)
}

// wholeNorm adds a norm of whole images x, which have their channels last. The elements of an image are one row.
func (b *turnedGraph) wholeNorm(n, x *ir.Node) *ir.Node {
	in, one := n.MapIn(b.lookup), ir.Type{DType: n.Type.DType, Shape: ir.ShapeOf(1)}
	elements, _ := x.Type.Shape[1:].Numel() // see isWholeNorm
	row := op.Reshape(x, ir.Shape{x.Type.Shape[0], ir.Static(1), elements})
	y := op.GroupNorm(row, op.Const(b.out, 1, one), op.Const(b.out, 0, one), 1, n.Attrs.(op.GroupNormAttrs).Eps)
	return op.Add(op.Mul(op.Reshape(y, x.Type.Shape), in[1]), in[2])
}

// operands returns the operands of a node that is turned.
func (b *turnedGraph) operands(n *ir.Node, k int) []*ir.Node {
	in := make([]*ir.Node, len(n.In))
	_, weights := layoutOf(n)
	for i, x := range n.In {
		switch {
		case x == nil:
		case moves(n, i):
			in[i] = b.last(x, k)
		case weights || x.Type.Rank() == 0:
			in[i] = b.lookup(x)
		default:
			in[i] = b.aligned(x, n.Type.Rank(), k)
		}
	}
	return in
}

// aligned returns an operand of lower rank than the result, which is broadcast.
func (b *turnedGraph) aligned(x *ir.Node, rank, k int) *ir.Node {
	shape := make(ir.Shape, rank-x.Type.Rank(), rank)
	for i := range shape {
		shape[i] = ir.Static(1)
	}
	return b.permute(reshaped(b.lookup(x), append(shape, x.Type.Shape...)), toLast(rank, k))
}
