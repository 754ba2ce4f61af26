package pass

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	rw "github.com/rlx-go/rlx/core/rewrite"
	"github.com/rlx-go/rlx/core/tensor"
)

// ropeForm is a recognised rotary embedding of x. cos and sin have the width of a head, or half of it.
type ropeForm struct {
	x, cos, sin *ir.Node
	style       string
	half        bool // cos and sin have half the width
}

// findRope recognises rotary position embedding in the form of Transformers,
//
//	x*cos + concat(-second half of x, first half of x)*sin
//
// with cos and sin that are equal in both halves. It also recognises the same with neighbours as pairs, and the form in
// which both halves are computed and joined.
func (c *context) findRope(n *ir.Node) func(lookup func(*ir.Node) *ir.Node) *ir.Node {
	r := n.Type.Rank()
	if !n.Type.DType.IsFloat() || r != 3 && r != 4 {
		return nil
	}
	f, ok := c.ropeSum(n)
	if !ok {
		f, ok = ropeJoined(n)
	}
	if !ok || !sameElems(n, f.x) || !f.cos.Type.Equal(f.sin.Type) {
		return nil
	}
	t := f.cos.Type.Shape
	if len(t) > r || f.cos.Type.DType != dtype.F32 && f.cos.Type.DType != n.Type.DType {
		return nil
	}
	for len(t) < r {
		t = append(ir.Shape{ir.Static(1)}, t...)
	}
	d := n.Type.Shape[r-1].Const
	a := op.RopeAttrs{HeadDim: int(d), Style: f.style}
	seq := r - 2
	switch {
	case r == 3:
		a.Layout = op.BSE
	case t[1].Is(1):
		a.Layout = op.BHSD
	case t[2].Is(1):
		a.Layout, seq = op.BSHD, 1
	default:
		return nil
	}
	if t[seq] != n.Type.Shape[seq] || !t[0].Is(1) && t[0] != n.Type.Shape[0] {
		return nil
	}
	return func(lookup func(*ir.Node) *ir.Node) *ir.Node {
		var o op.RopeOperands
		rows := t[seq]
		if !t[0].Is(1) { // each batch element has rows of its own
			rows, _ = t[0].Mul(t[seq])
			at := op.Iota(lookup(f.x).Graph, 0, ir.Type{DType: dtype.I32, Shape: ir.Shape{rows}})
			o.Position = op.Reshape(at, ir.Shape{t[0], t[seq]})
		}
		shape := ir.Shape{rows, ir.Static(d / 2)}
		o.Cos, o.Sin = f.table(lookup(f.cos), shape), f.table(lookup(f.sin), shape)
		return op.Rope(lookup(f.x), o, a)
	}
}

// table returns one value for each pair.
func (f *ropeForm) table(t *ir.Node, shape ir.Shape) *ir.Node {
	last := t.Type.Rank() - 1
	switch {
	case f.half:
	case f.style == op.NeoX:
		t = op.Narrow(t, last, 0, int(shape[1].Const))
	default:
		pairs := append(append(ir.Shape{}, t.Type.Shape[:last]...), shape[1], ir.Static(2))
		t = op.Narrow(op.Reshape(t, pairs), last+1, 0, 1)
	}
	return reshaped(t, shape)
}

// ropeSum recognises x*cos + rotated(x)*sin.
func (c *context) ropeSum(n *ir.Node) (f ropeForm, ok bool) {
	if !n.Is(op.AddDef) || !n.In[0].Is(op.MulDef) || !n.In[1].Is(op.MulDef) {
		return f, false
	}
	for i := range 8 {
		a, b := n.In[i&1], n.In[1-i&1]
		f = ropeForm{x: a.In[i>>1&1], cos: a.In[1-i>>1&1], sin: b.In[1-i>>2&1], style: op.NeoX}
		turned := b.In[i>>2&1]
		if !sameElems(n, f.x) || !sameElems(n, turned) {
			continue
		}
		d := n.Type.Shape[n.Type.Rank()-1]
		if !d.IsStatic() || d.Const%2 != 0 || f.cos.Type.Rank() == 0 || f.cos.Type.Shape[f.cos.Type.Rank()-1] != d {
			continue
		}
		if halvesTurned(turned, f.x) && c.repeats(f.cos, false) && c.repeats(f.sin, false) {
			return f, true
		}
		if c.pairsTurned(turned) == f.x && c.repeats(f.cos, true) && c.repeats(f.sin, true) {
			f.style = op.GPTJ
			return f, true
		}
	}
	return f, false
}

// headPart is a range of elements of the last axis of a value.
type headPart struct {
	of         *ir.Node
	start, len int64
}

// partOf returns the value that n is a range of, and the range.
func partOf(n *ir.Node) headPart {
	d := n.Type.Shape[n.Type.Rank()-1].Const
	if n.Is(op.NarrowDef) {
		if a := n.Attrs.(op.NarrowAttrs); a.Axis == n.Type.Rank()-1 {
			return headPart{n.In[0], int64(a.Start), d}
		}
	}
	return headPart{n, 0, d}
}

// halves reports whether a and b are the first and second half of x.
func halves(a, b, x headPart) bool {
	return a.of == x.of && b.of == x.of && 2*a.len == x.len && 2*b.len == x.len && a.start == x.start &&
		b.start == x.start+a.len
}

// negated returns x if n is -x.
func negated(n *ir.Node) *ir.Node {
	if n.Is(op.NegDef) {
		return n.In[0]
	}
	if x, v, ok := otherThan(n, op.MulDef); ok && v == -1 {
		return x
	}
	return nil
}

// halvesTurned reports whether n is concat(-second half, first half) of x.
func halvesTurned(n, x *ir.Node) bool {
	if !n.Is(op.ConcatDef) || len(n.In) != 2 || n.Attrs.(op.ConcatAttrs).Axis != n.Type.Rank()-1 {
		return false
	}
	b := negated(n.In[0])
	return b != nil && halves(partOf(n.In[1]), partOf(b), partOf(x))
}

// pairsTurned returns x if n has (-x[2i+1], x[2i]) where x has (x[2i], x[2i+1]).
func (c *context) pairsTurned(n *ir.Node) *ir.Node {
	a, b := joinedPairs(n)
	if a == nil {
		return nil
	}
	if a = negated(unsqueezed(a)); a == nil {
		return nil
	}
	if x := c.everySecond(a, 1); x != nil && x == c.everySecond(unsqueezed(b), 0) {
		return x
	}
	return nil
}

// joinedPairs returns the two values whose elements alternate in n.
func joinedPairs(n *ir.Node) (a, b *ir.Node) {
	if !n.Is(op.ReshapeDef) {
		return nil, nil
	}
	s := n.In[0]
	r := s.Type.Rank()
	if r != n.Type.Rank()+1 || !s.Type.Shape[r-1].Is(2) || !s.Type.Shape[:r-2].Equal(n.Type.Shape[:r-2]) {
		return nil, nil
	}
	switch {
	case s.Is(op.ConcatDef) && len(s.In) == 2 && s.Attrs.(op.ConcatAttrs).Axis == r-1:
		return s.In[0], s.In[1]
	case s.Is(op.ExpandDef) && s.In[0].Type.Rank() == r && s.In[0].Type.Shape[r-1].Is(1):
		return s.In[0], s.In[0]
	}
	return nil, nil
}

// unsqueezed returns n without a last axis of 1 that a reshape or an elementwise op on a reshape gave it.
func unsqueezed(n *ir.Node) *ir.Node {
	if n.Is(op.ReshapeDef) && n.Type.Rank() == n.In[0].Type.Rank()+1 && n.Type.Shape[n.Type.Rank()-1].Is(1) {
		return n.In[0]
	}
	return n
}

// everySecond returns x if n has the elements start, start+2 and so on of its last axis.
func (c *context) everySecond(n *ir.Node, start int) *ir.Node {
	if n.Is(op.GatherDef) {
		x := n.In[0]
		axis := x.Type.Rank() - 1
		d := x.Type.Shape[axis]
		values := c.known(n.In[1])
		if n.Attrs.(op.GatherAttrs).Axis != axis || values == nil || len(values.Shape) != 1 ||
			!d.Is(2*int64(values.Len())) {
			return nil
		}
		for i := range values.Len() {
			if values.At(i) != float64(2*i+start) {
				return nil
			}
		}
		return x
	}
	if n.Is(op.ReshapeDef) {
		n = n.In[0]
	}
	if !n.Is(op.NarrowDef) || !n.In[0].Is(op.ReshapeDef) {
		return nil
	}
	a, pairs := n.Attrs.(op.NarrowAttrs), n.In[0]
	x, r := pairs.In[0], pairs.Type.Rank()
	if a.Axis != r-1 || a.Len != 1 || a.Start != start || !pairs.Type.Shape[r-1].Is(2) || x.Type.Rank() != r-1 ||
		!x.Type.Shape[:r-2].Equal(pairs.Type.Shape[:r-2]) {
		return nil
	}
	return x
}

// maxKnown is the largest number of elements of a table that is compared at compile time.
const maxKnown = 1 << 20

// known returns the value of a param that no session replaces, or nil.
func (c *context) known(n *ir.Node) *tensor.Array {
	if e, ok := n.Type.Shape.Numel(); !n.Is(op.ParamDef) || !ok || !e.IsStatic() || e.Const > maxKnown {
		return nil
	}
	if t, ok := c.report.Folded[n.Name]; ok {
		return t.Array()
	}
	if c.params == nil || c.mutable != nil && c.mutable(n.Name) || n.Type.DType.IsPacked() {
		return nil
	}
	v, err := c.params.Param(n.Name)
	if err != nil {
		return nil
	}
	return v
}

// repeats reports whether the elements of the last axis of a table are equal in both halves, or, with pairs, in each
// pair of neighbours.
func (c *context) repeats(n *ir.Node, pairs bool) bool {
	last := n.Type.Rank() - 1
	switch {
	case n.Is(op.ConcatDef) && !pairs:
		return n.Attrs.(op.ConcatAttrs).Axis == last && len(n.In) == 2 && n.In[0] == n.In[1] || c.joinsRows(n, pairs)
	case n.Is(op.ConcatDef):
		return c.joinsRows(n, pairs)
	case n.Is(op.ReshapeDef):
		if a, b := joinedPairs(n); pairs && a != nil && a == b {
			return true
		}
		x := n.In[0]
		return x.Type.Rank() > 0 && last >= 0 && x.Type.Shape[x.Type.Rank()-1] == n.Type.Shape[last] &&
			c.repeats(x, pairs)
	case n.Is(op.CosDef, op.SinDef, op.CastDef, op.NegDef):
		return c.repeats(n.In[0], pairs)
	case n.Is(op.MulDef, op.AddDef):
		if x, _, ok := otherThan(n, n.Op); ok {
			return c.repeats(x, pairs)
		}
	case n.Is(op.ExpandDef):
		x := n.In[0]
		return x.Type.Rank() > 0 && x.Type.Shape[x.Type.Rank()-1] == n.Type.Shape[last] && c.repeats(x, pairs)
	case n.Is(op.NarrowDef):
		return n.Attrs.(op.NarrowAttrs).Axis != last && c.repeats(n.In[0], pairs)
	case n.Is(op.GatherDef):
		x := n.In[0]
		return n.Attrs.(op.GatherAttrs).Axis != x.Type.Rank()-1 && c.repeats(x, pairs)
	case n.Is(op.ParamDef):
		return valuesRepeat(c.known(n), pairs)
	}
	return false
}

// joinsRows reports whether n joins tables along an axis other than the last, and each table repeats.
func (c *context) joinsRows(n *ir.Node, pairs bool) bool {
	if n.Attrs.(op.ConcatAttrs).Axis == n.Type.Rank()-1 {
		return false
	}
	for _, x := range n.In {
		if !c.repeats(x, pairs) {
			return false
		}
	}
	return true
}

func valuesRepeat(v *tensor.Array, pairs bool) bool {
	if v == nil || len(v.Shape) == 0 {
		return false
	}
	d := v.Shape[len(v.Shape)-1]
	if d == 0 || d%2 != 0 {
		return false
	}
	for row := 0; row < v.Len(); row += d {
		for i := range d / 2 {
			a, b := row+i, row+i+d/2
			if pairs {
				a, b = row+2*i, row+2*i+1
			}
			if v.At(a) != v.At(b) {
				return false
			}
		}
	}
	return true
}

// ropeJoined recognises concat(a*cos - b*sin, b*cos + a*sin) of the halves a and b of x.
func ropeJoined(n *ir.Node) (f ropeForm, ok bool) {
	if !n.Is(op.ConcatDef) || len(n.In) != 2 || n.Attrs.(op.ConcatAttrs).Axis != n.Type.Rank()-1 {
		return f, false
	}
	first, second := n.In[0], n.In[1]
	if !first.Is(op.SubDef) || !second.Is(op.AddDef) {
		return f, false
	}
	for _, m := range []*ir.Node{first.In[0], first.In[1], second.In[0], second.In[1]} {
		if !m.Is(op.MulDef) {
			return f, false
		}
	}
	for i := range 2 {
		a, c := first.In[0].In[i], first.In[0].In[1-i]
		for j := range 2 {
			b, s := first.In[1].In[j], first.In[1].In[1-j]
			if a.Type.Rank() == 0 || b.Type.Rank() == 0 ||
				!(isProduct(second.In[0], b, c) && isProduct(second.In[1], a, s) ||
					isProduct(second.In[1], b, c) && isProduct(second.In[0], a, s)) {
				continue
			}
			whole := partOf(a)
			r, d := c.Type.Rank(), a.Type.Shape[a.Type.Rank()-1]
			f = ropeForm{x: whole.of, cos: c, sin: s, style: op.NeoX, half: true}
			whole.len *= 2
			if d.IsStatic() && halves(partOf(a), partOf(b), whole) && whole.start == 0 &&
				sameElems(n, whole.of) && r > 0 && c.Type.Shape[r-1] == d {
				return f, true
			}
		}
	}
	return f, false
}

func isProduct(n, a, b *ir.Node) bool {
	return n.In[0] == a && n.In[1] == b || n.In[0] == b && n.In[1] == a
}

// partialRope makes one rope where only the first elements of each head turn:
//
//	a = narrow x {axis=3, len=R}
//	b = narrow x {axis=3, start=R, len=D-R}
//	y = concat (rope a), b {axis=3}          ->   y = rope x {head_dim=D, n_rot=R}
func partialRope(c *rw.Context) *ir.Node {
	n := c.Root()
	if len(n.In) != 2 || n.Attrs.(op.ConcatAttrs).Axis != n.Type.Rank()-1 || !n.In[0].Is(op.RopeDef) ||
		!n.In[1].Is(op.NarrowDef) || !n.In[0].In[0].Is(op.NarrowDef) {
		return nil
	}
	rope := n.In[0]
	a, turned, rest := rope.Attrs.(op.RopeAttrs), rope.In[0], n.In[1]
	x := turned.In[0]
	p, q := turned.Attrs.(op.NarrowAttrs), rest.Attrs.(op.NarrowAttrs)
	last := x.Type.Rank() - 1
	if rest.In[0] != x || p.Axis != last || q.Axis != last || p.Start != 0 || q.Start != p.Len || a.Rot != 0 ||
		a.Heads != 0 || a.HeadDim != p.Len || !n.Type.Equal(x.Type) || rope.In[op.RopeCos] == nil {
		return nil
	}
	a.Rot, a.HeadDim = a.HeadDim, p.Len+q.Len
	in := rope.MapIn(c.Map)
	in[0] = c.Map(x)
	return c.Out.Add(op.RopeDef, a, in...)
}
