package pass

import (
	"math"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// keySpan is the range of keys j that query i attends to: i + lower <= j <= i + upper, with each bound that is set.
type keySpan struct {
	lower, upper       int64
	hasLower, hasUpper bool
}

// and returns the intersection.
func (a keySpan) and(b keySpan) keySpan {
	if b.hasLower && (!a.hasLower || b.lower > a.lower) {
		a.lower, a.hasLower = b.lower, true
	}
	if b.hasUpper && (!a.hasUpper || b.upper < a.upper) {
		a.upper, a.hasUpper = b.upper, true
	}
	return a
}

// valid reports whether the span is not empty and its bounds fit the attributes of attention.
func (a keySpan) valid() bool {
	small := func(v int64) bool { return v >= -ir.MaxDim && v <= ir.MaxDim }
	return small(a.lower) && small(a.upper) && !(a.hasLower && a.hasUpper && a.upper-a.lower > ir.MaxDim) &&
		!(a.hasLower && a.hasUpper && a.lower > a.upper)
}

// attrs sets the mask that is equal to the span. It returns false for a span with only a lower bound, because attention
// has no such mask.
func (a keySpan) attrs(to *op.AttentionAttrs, sq, sk ir.Dim) bool {
	switch {
	case !a.hasUpper:
		return false
	case a.hasLower:
		to.Mask, to.Window = op.MaskSliding, int(a.upper-a.lower)
	default:
		to.Mask = op.MaskCausal
	}
	if d, ok := sk.Sub(sq); !ok || !d.Is(a.upper) {
		to.QOffset, to.UseQOffset = int(a.upper), true
	}
	return true
}

// spanOf reads the condition of a mask as a span of keys. The condition is a comparison of positions, or a table that
// was folded from one. Its last axis is the keys, the one before it the queries.
func (c *context) spanOf(cond *ir.Node, opposite bool) (keySpan, bool) {
	if t, ok := c.report.Folded[cond.Name]; ok && cond.Is(op.ParamDef) {
		return tableSpan(t.Data, cond.Type.Shape, opposite)
	}
	for cond.Is(op.ReshapeDef, op.ExpandDef) && cond.In[0].Type.Rank() >= 2 && onlyOnesBefore(cond.In[0], cond) {
		cond = cond.In[0]
	}
	if !cond.Is(op.LeDef, op.LtDef, op.GeDef, op.GtDef) {
		return keySpan{}, false
	}
	a, aOK := positionOf(cond.In[0])
	b, bOK := positionOf(cond.In[1])
	less, strict := cond.Is(op.LeDef, op.LtDef), cond.Is(op.LtDef, op.GtDef)
	if !aOK || !bOK || a.fromEnd == b.fromEnd || max(a.fromEnd, b.fromEnd) > 1 {
		return keySpan{}, false
	}
	if a.fromEnd == 1 { // the left operand is the query
		a, b, less = b, a, !less
	}
	if opposite { // not (key <= q) is key > q
		less, strict = !less, !strict
	}
	d := b.offset - a.offset // key <= query + d, or >=
	switch {
	case less && strict:
		return keySpan{upper: d - 1, hasUpper: true}, true
	case less:
		return keySpan{upper: d, hasUpper: true}, true
	case strict:
		return keySpan{lower: d + 1, hasLower: true}, true
	}
	return keySpan{lower: d, hasLower: true}, true
}

// onlyOnesBefore reports whether y is x with axes of size 1 added in front.
func onlyOnesBefore(x, y *ir.Node) bool {
	n := y.Type.Rank() - x.Type.Rank()
	return n >= 0 && y.Type.Shape[n:].Equal(x.Type.Shape) &&
		!slices.ContainsFunc(y.Type.Shape[:n], func(d ir.Dim) bool { return !d.Is(1) })
}

// position is a value that counts along one axis: the index plus an offset.
type position struct {
	fromEnd int // the axis, counted from the last, which is 0
	offset  int64
}

// positionOf recognises an iota, possibly plus constants, that broadcasts along the other axes of its reader.
func positionOf(n *ir.Node) (p position, ok bool) {
	axis := -1
	for i, d := range n.Type.Shape {
		if !d.Is(1) {
			if axis >= 0 {
				return p, false
			}
			axis = i
		}
	}
	if axis < 0 || n.Type.DType.IsFloat() {
		return p, false
	}
	p.fromEnd = n.Type.Rank() - 1 - axis
	for {
		switch {
		case n.Is(op.AddDef, op.SubDef):
			v, right := scalarOf(n.In[1])
			if n.Is(op.SubDef) {
				v = -v
			}
			next := n.In[0]
			if !right && n.Is(op.AddDef) {
				v, right = scalarOf(n.In[0])
				next = n.In[1]
			}
			if !right || !sameElems(n, next) || v != math.Trunc(v) || math.Abs(v) > ir.MaxDim {
				return p, false
			}
			n, p.offset = next, p.offset+int64(v)
		case n.Is(op.ReshapeDef):
			n = n.In[0]
		case n.Is(op.CastDef) && !n.In[0].Type.DType.IsFloat():
			n = n.In[0]
		case n.Is(op.IotaDef):
			return p, !n.Type.Shape[n.Attrs.(op.IotaAttrs).Axis].Is(1) && onlyAxis(n.Type.Shape)
		default:
			return p, false
		}
	}
}

// onlyAxis reports whether exactly one axis of s is not 1.
func onlyAxis(s ir.Shape) bool {
	n := 0
	for _, d := range s {
		if !d.Is(1) {
			n++
		}
	}
	return n == 1
}

// tableSpan is like spanOf for a table of shape [...1, queries, keys].
func tableSpan(table []byte, shape ir.Shape, opposite bool) (span keySpan, ok bool) {
	r := len(shape)
	if r < 2 || !shape.IsStatic() || slices.ContainsFunc(shape[:r-2], func(d ir.Dim) bool { return !d.Is(1) }) {
		return span, false
	}
	queries, keys := int(shape[r-2].Const), int(shape[r-1].Const)
	sees := func(i, j int) bool { return (table[i*keys+j] != 0) != opposite }
	for i := range queries {
		for j := 1; j < keys; j++ {
			switch before, here := sees(i, j-1), sees(i, j); {
			case before && !here:
				span = span.and(keySpan{upper: int64(j - 1 - i), hasUpper: true})
			case here && !before:
				span = span.and(keySpan{lower: int64(j - i), hasLower: true})
			}
		}
	}
	for i := range queries {
		for j := range keys {
			d := int64(j - i)
			if sees(i, j) != !(span.hasLower && d < span.lower || span.hasUpper && d > span.upper) {
				return span, false
			}
		}
	}
	return span, span != keySpan{}
}
