package pass

import (
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	rw "github.com/rlx-go/rlx/core/rewrite"
)

// gatherOne replaces the choice of one known index by a part of the axis, which may be read in place:
//
//	y = gather x, 2 {axis=3}   ->   a = narrow x {axis=3, len=1, start=2}
//	                                y = reshape a
func gatherOne(c *rw.Context) *ir.Node {
	n := c.Root()
	x, axis := n.In[0], n.Attrs.(op.GatherAttrs).Axis
	v, ok := scalarOf(n.In[1])
	e, known := n.In[1].Type.Shape.Numel()
	d := x.Type.Shape[axis]
	if !ok || !known || !e.Is(1) || !d.IsStatic() || !(v >= 0) || v >= float64(d.Const) || x.Type.DType.IsPacked() {
		return nil
	}
	return op.Reshape(op.Narrow(c.Map(x), axis, int(v), 1), n.Type.Shape)
}

// narrowedPart returns the operand of a concat that a narrow cuts out again, as exporters do with the coordinates of
// elements that a model chooses:
//
//	c = concat a, b                             a [1,N], b [1,N]
//	t = transpose c {perm=[1,0]}
//	y = narrow t {axis=1, start=1, len=1}   ->  transpose b {perm=[1,0]}
func narrowedPart(c *rw.Context) *ir.Node {
	n := c.Root()
	a, x := n.Attrs.(op.NarrowAttrs), n.In[0]
	axis, turned := a.Axis, x.Is(op.TransposeDef)
	if turned {
		axis, x = perm(x)[axis], x.In[0]
	}
	if x.Attrs.(op.ConcatAttrs).Axis != axis {
		return nil
	}
	at := int64(0)
	for _, part := range x.In {
		size := part.Type.Shape[axis]
		if !size.IsStatic() || at > int64(a.Start) {
			return nil
		}
		if at == int64(a.Start) && size.Const == int64(a.Len) {
			if turned {
				return op.Transpose(c.Map(part), perm(n.In[0])...)
			}
			return c.Map(part)
		}
		at += size.Const
	}
	return nil
}

// twoTransposes matches what mergeViews merges.
var twoTransposes = rw.Op(op.TransposeDef, rw.As("r", rw.Op(op.ReshapeDef, rw.As("inner", rw.OneOf(
	rw.Op(op.TransposeDef), rw.If(rw.Op(op.NarrowDef, rw.Op(op.TransposeDef)), func(n *ir.Node) bool {
		return n.Attrs.(op.NarrowAttrs).Len == 1
	}))))))

// mergeViews makes one transpose of two with a reshape between them, if the reshape only splits and joins axes:
//
//	t = transpose x {perm=[1,0,2]}              x [B,S,E]
//	r = reshape t                               [S,B*H,D]
//	y = transpose r {perm=[1,0,2]}              [B*H,S,D]
//	->
//	r = reshape x                               [B,S,H,D]
//	t = transpose r {perm=[0,2,1,3]}
//	y = reshape t
//
// The first one may be followed by one index of an axis, as of packed queries, keys and values.
func mergeViews(c *rw.Context) *ir.Node {
	inner, reshape, outer := c.Node("inner"), c.Node("r"), c.Root()
	parts, ofInner, ofReshape, ok := commonParts(inner.Type.Shape, reshape.Type.Shape)
	if !ok {
		return nil
	}
	t := inner
	if inner.Is(op.NarrowDef) {
		t = inner.In[0]
	}
	p, q := perm(t), perm(outer)
	x := c.Map(t.In[0])
	if inner.Is(op.NarrowDef) {
		a := inner.Attrs.(op.NarrowAttrs)
		x = op.Narrow(x, p[a.Axis], a.Start, a.Len)
	}
	var order []int // the parts in the order of x
	for axis := range p {
		for k, a := range ofInner {
			if p[a] == axis {
				order = append(order, k)
			}
		}
	}
	var result []int // positions in order, in the order of the result
	for _, axis := range q {
		for k, b := range ofReshape {
			if b == axis {
				result = append(result, slices.Index(order, k))
			}
		}
	}
	rank := max(inner.Type.Rank(), outer.Type.Rank())
	shape, moved := make(ir.Shape, len(order)), result
	for i, k := range order {
		shape[i] = parts[k]
	}
	if slices.IsSorted(moved) || len(moved) > max(rank, 4) {
		if shape, moved = joined(parts, order, result); len(moved) > rank {
			return nil
		}
	}
	y := reshaped(x, shape)
	if !slices.IsSorted(moved) {
		y = op.Transpose(y, moved...)
	}
	return reshaped(y, outer.Type.Shape)
}

// joined joins parts that stay neighbours. It returns the shape before the transpose, and its permutation.
func joined(parts ir.Shape, order, result []int) (shape ir.Shape, moved []int) {
	group := make([]int, len(order)) // by position in order
	for i, k := range order {
		at := slices.Index(result, i)
		if i > 0 && at > 0 && result[at-1] == i-1 {
			if d, ok := shape[len(shape)-1].Mul(parts[k]); ok {
				group[i] = len(shape) - 1
				shape[len(shape)-1] = d
				continue
			}
		}
		group[i] = len(shape)
		shape = append(shape, parts[k])
	}
	for _, i := range result {
		if len(moved) == 0 || moved[len(moved)-1] != group[i] {
			moved = append(moved, group[i])
		}
	}
	return shape, moved
}

// commonParts divides the axes of two shapes of the same elements into parts, such that each axis of both shapes
// consists of whole parts. ofA and ofB have the axis of each part. Axes of 1 have no part.
func commonParts(a, b ir.Shape) (parts ir.Shape, ofA, ofB []int, ok bool) {
	i, j := -1, -1
	one := ir.Static(1)
	restA, restB := one, one
	next := func(s ir.Shape, at int) int {
		for at++; at < len(s) && s[at].Is(1); at++ {
		}
		return at
	}
	for {
		if restA.Is(1) {
			i = next(a, i)
			if i < len(a) {
				restA = a[i]
			}
		}
		if restB.Is(1) {
			j = next(b, j)
			if j < len(b) {
				restB = b[j]
			}
		}
		if i == len(a) || j == len(b) {
			return parts, ofA, ofB, i == len(a) && j == len(b)
		}
		part := restA
		if q, whole := restB.Div(restA); whole {
			restA, restB = one, q
		} else if q, whole = restA.Div(restB); whole {
			part, restA, restB = restB, q, one
		} else {
			return nil, nil, nil, false
		}
		if part.Is(0) {
			return nil, nil, nil, false
		}
		parts, ofA, ofB = append(parts, part), append(ofA, i), append(ofB, j)
	}
}

// rowwise returns x if n computes each row, the last axis, from the row of x alone, and a function that adds n with
// another x, whose axes before the last may have another order.
func rowwise(n *ir.Node) (x *ir.Node, again func(c *rw.Context, x *ir.Node) *ir.Node) {
	switch {
	case n.Is(op.MatMulDef) && n.In[1].Type.Rank() == 2 && !n.Attrs.(op.MatMulAttrs).TransA:
		return n.In[0], func(c *rw.Context, x *ir.Node) *ir.Node {
			return op.MatMul(x, c.Map(n.In[1]), n.Attrs.(op.MatMulAttrs))
		}
	case n.Is(op.AddDef):
		for i := range 2 {
			if v := n.In[1-i]; sameElems(n, n.In[i]) && vectorFor(v, n.In[i]) != nil {
				return n.In[i], func(c *rw.Context, x *ir.Node) *ir.Node {
					last := v.Type.Shape[v.Type.Rank()-1:]
					return op.Add(x, reshaped(c.Map(v), last))
				}
			}
		}
	}
	return nil, nil
}

// rowsDown moves a transpose that keeps rows after products of rows, next to another transpose, with which it merges:
//
//	t = transpose x {perm=[1,0,2]}          p = matmul x, w
//	p = matmul t, w                         t = transpose p {perm=[1,0,2]}
//	y = transpose (reshape p)       ->      y = transpose (reshape t)
func rowsDown(c *rw.Context) *ir.Node {
	outer := c.Root()
	r := outer.In[0]
	if !r.Is(op.ReshapeDef) {
		return nil
	}
	t, steps := rowsFrom(c.Match, r.In[0])
	if t == nil || len(steps) == 0 || !t.Is(op.TransposeDef) {
		return nil
	}
	p := perm(t)
	if p[len(p)-1] != len(p)-1 {
		return nil
	}
	y := c.Map(t.In[0])
	for _, again := range slices.Backward(steps) {
		y = again(c, y)
	}
	return op.Transpose(op.Reshape(op.Transpose(y, p...), r.Type.Shape), perm(outer)...)
}

// rowsUp moves a transpose that keeps rows before products of rows, next to another transpose, with which it merges:
//
//	p = matmul (reshape t), w                     u = transpose (reshape t) {perm=[1,0,2]}
//	y = transpose (reshape p) {perm=[1,0,2]} ->   y = matmul u, w
func rowsUp(c *rw.Context) *ir.Node {
	outer := c.Root()
	r, p := outer.In[0], perm(outer)
	last := len(p) - 1
	if last < 1 || p[last] != last || !r.Is(op.ReshapeDef) && len(p) < 3 {
		return nil
	}
	y := r
	if r.Is(op.ReshapeDef) {
		y = r.In[0]
		if y.Type.Rank() == 0 || y.Type.Shape[y.Type.Rank()-1] != r.Type.Shape[last] {
			return nil
		}
	}
	in, steps := rowsFrom(c.Match, y)
	if in == nil || len(steps) == 0 || !in.Is(op.ReshapeDef) {
		return nil
	}
	shape := append(slices.Clone(r.Type.Shape[:last]), in.Type.Shape[in.Type.Rank()-1])
	x := op.Transpose(op.Reshape(c.Map(in), shape), p...)
	for _, again := range slices.Backward(steps) {
		x = again(c, x)
	}
	return x
}

// rowsFrom follows products of rows that nothing else reads up to a transpose, or to a reshape of one, and returns it
// with the steps, the last one first. It returns nil if there is none.
func rowsFrom(m *rw.Match, n *ir.Node) (from *ir.Node, steps []func(c *rw.Context, x *ir.Node) *ir.Node) {
	for len(steps) < 4 {
		if n.Is(op.TransposeDef) || n.Is(op.ReshapeDef) && n.In[0].Is(op.TransposeDef) {
			return n, steps
		}
		x, again := rowwise(n)
		if x == nil || m.Uses(n) != 1 {
			return nil, nil
		}
		n, steps = x, append(steps, again)
	}
	return nil, nil
}

// mergeAxes moves a reshape that only joins axes before a transpose that does not part them:
//
//	t = transpose x {perm=[0,1,3,2,4]}          r = reshape x
//	y = reshape t                       ->      y = transpose r {perm=[0,2,1,3]}
func mergeAxes(c *rw.Context) *ir.Node {
	n := c.Root()
	t := n.In[0]
	p := perm(t)
	parts, ofT, ofN, ok := commonParts(t.Type.Shape, n.Type.Shape)
	if !ok || n.Type.Rank() >= len(p) || len(parts) != len(p) || slices.ContainsFunc(n.Type.Shape, func(d ir.Dim) bool {
		return d.Is(1)
	}) {
		return nil
	}
	first := make([]int, n.Type.Rank()) // of the axes of x that an axis of n consists of
	for k, axis := range ofN {
		switch {
		case k == 0 || ofN[k-1] != axis:
			first[axis] = p[ofT[k]]
		case p[ofT[k]] != p[ofT[k-1]]+1:
			return nil
		}
	}
	order := slices.Sorted(slices.Values(first))
	shape, moved := make(ir.Shape, len(first)), make([]int, len(first))
	for axis, at := range first {
		moved[axis] = slices.Index(order, at)
		shape[moved[axis]] = n.Type.Shape[axis]
	}
	return op.Transpose(op.Reshape(c.Map(t.In[0]), shape), moved...)
}

// normAcross moves a norm of rows before a transpose that keeps rows, so that attention can absorb the transpose:
//
//	t = transpose x {perm=[0,2,1,3]}          u = l2_norm x {axes=[3]}
//	y = l2_norm t {axes=[3]}          ->      y = transpose u {perm=[0,2,1,3]}
func normAcross(c *rw.Context) *ir.Node {
	n := c.Root()
	last := n.Type.Rank() - 1
	if a, ok := n.Attrs.(op.L2NormAttrs); ok && !slices.Equal(a.Axes, []int{last}) {
		return nil
	}
	t := n.In[0]
	if t.Is(op.ReshapeDef) && t.In[0].Is(op.NarrowDef) && keepsLastTwo(t.In[0], t) {
		t = t.In[0]
	}
	x := unstacked(t, c.Map)
	if !x.Is(op.TransposeDef) || !x.Type.Equal(n.Type) {
		return nil
	}
	p := perm(x)
	if p[last] != last || c.Uses(n.In[0]) != 1 {
		return nil
	}
	in := n.MapIn(c.Map)
	in[0] = x.In[0]
	return op.Transpose(c.Out.Add(n.Op, n.Attrs, in...), p...)
}
