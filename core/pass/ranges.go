package pass

import (
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	rw "github.com/rlx-go/rlx/core/rewrite"
)

// Exporters let indices count from the end, with a comparison and a choice for each gather. Often the compiler knows
// that an index is not negative: it is a position, the result of top_k, or a table of constants.
//
//	i = iota : i64[S]
//	n = lt i, 0
//	w = add i, 512
//	j = where n, w, i   ->   i

// ranges finds bounds of integer values. They hold for all values of the symbols and of the inputs.
type ranges struct {
	c     *context
	known map[*ir.Node]bounds
}

// bounds are the least and the largest value that an element may have.
type bounds struct{ lo, hi int64 }

// rules returns the rewrites that depend on bounds. A comparison whose value is known stays if something else reads it:
// a target may have no kernel for a bool constant.
func (r *ranges) rules() []rw.Rule {
	known := func(value bool) rw.Pattern {
		compares := rw.OneOf(rw.Op(op.LtDef), rw.Op(op.LeDef), rw.Op(op.GtDef), rw.Op(op.GeDef))
		return rw.If(compares, func(n *ir.Node) bool {
			holds, known := r.comparison(n)
			return known && holds == value
		})
	}
	x, other := rw.Any("x"), rw.Any("other")
	largest := func(k int) func(n *ir.Node) bool {
		return func(n *ir.Node) bool { return n.Type.DType.IsInt() && r.of(n.In[k]).lo >= r.of(n.In[1-k]).hi }
	}
	return []rw.Rule{
		{Name: "where-known", Match: rw.OneOf(rw.Op(op.WhereDef, known(true), x, other),
			rw.Op(op.WhereDef, known(false), other, x)), To: operand},
		{Name: "max-known", Match: rw.OneOf(rw.If(rw.Op(op.MaxDef, x, other), largest(0)),
			rw.If(rw.Op(op.MaxDef, other, x), largest(1))), To: operand},
		{Name: "and-known", Match: rw.If(rw.Op(op.AndDef, known(true), x), isBool), To: operand},
		{Name: "or-known", Match: rw.If(rw.Op(op.OrDef, known(false), x), isBool), To: operand},
	}
}

// comparison returns the value of a comparison of integers if it is the same for all elements in all runs.
func (r *ranges) comparison(n *ir.Node) (holds, known bool) {
	if !n.In[0].Type.DType.IsInt() {
		return false, false
	}
	a, b := r.of(n.In[0]), r.of(n.In[1])
	if n.Is(op.GtDef) || n.Is(op.GeDef) {
		a, b = b, a
	}
	if n.Is(op.LtDef) || n.Is(op.GtDef) {
		return a.hi < b.lo, a.hi < b.lo || a.lo >= b.hi
	}
	return a.hi <= b.lo, a.hi <= b.lo || a.lo > b.hi
}

// of returns the bounds of an integer or bool value.
func (r *ranges) of(n *ir.Node) bounds {
	b, ok := r.known[n]
	if !ok {
		b = typeBounds(n.Type.DType)
		if f := boundsOf[n.Op]; f != nil {
			if found, ok := f(r, n); ok && found.lo >= b.lo && found.hi <= b.hi { // otherwise it may wrap
				b = found
			}
		}
		r.known[n] = b
	}
	return b
}

// typeBounds returns the bounds of an element type. Those of floats are never used for a comparison.
func typeBounds(d dtype.DType) bounds {
	switch d {
	case dtype.Bool:
		return bounds{0, 1}
	case dtype.I8:
		return bounds{math.MinInt8, math.MaxInt8}
	case dtype.I16:
		return bounds{math.MinInt16, math.MaxInt16}
	case dtype.I32:
		return bounds{math.MinInt32, math.MaxInt32}
	case dtype.U8:
		return bounds{0, math.MaxUint8}
	case dtype.U32:
		return bounds{0, math.MaxUint32}
	}
	return bounds{math.MinInt64, math.MaxInt64}
}

// boundsOf has functions that compute the bounds of an op's result from those of its operands. ok is false if nothing
// is known. It is set in init, because the functions call ranges.of.
var boundsOf map[*ir.OpDef]func(r *ranges, n *ir.Node) (b bounds, ok bool)

func init() {
	boundsOf = map[*ir.OpDef]func(r *ranges, n *ir.Node) (bounds, bool){
		op.ParamDef: (*ranges).ofParam,
		op.ConstDef: func(_ *ranges, n *ir.Node) (bounds, bool) {
			v := n.Attrs.(op.ConstAttrs).Value
			return bounds{int64(v), int64(v)}, v == math.Trunc(v) && math.Abs(v) < 1<<53
		},
		op.IotaDef: func(_ *ranges, n *ir.Node) (bounds, bool) {
			return indexBounds(n, n.Type.Shape[n.Attrs.(op.IotaAttrs).Axis])
		},
		ir.ResultDef: func(_ *ranges, n *ir.Node) (bounds, bool) {
			by, k := n.Maker()
			if by.Op != op.TopKDef || k != 1 {
				return bounds{}, false
			}
			x := by.In[0].Type.Shape
			return indexBounds(n, x[len(x)-1])
		},
		op.ArgMaxDef: ofArg, op.ArgMinDef: ofArg,
		op.CastDef: func(r *ranges, n *ir.Node) (bounds, bool) {
			from := n.In[0].Type.DType
			return r.of(n.In[0]), n.Type.DType.IsInt() && (from.IsInt() || from == dtype.Bool)
		},
		op.ReshapeDef: ofFirst, op.ExpandDef: ofFirst, op.TransposeDef: ofFirst, op.NarrowDef: ofFirst,
		op.GatherDef: ofFirst,
		op.ConcatDef: func(r *ranges, n *ir.Node) (bounds, bool) {
			b := r.of(n.In[0])
			for _, x := range n.Operands() {
				b = b.union(r.of(x))
			}
			return b, true
		},
		op.WhereDef: func(r *ranges, n *ir.Node) (bounds, bool) { return r.of(n.In[1]).union(r.of(n.In[2])), true },
		op.AddDef:   ofBinary(func(a, b bounds) bounds { return bounds{a.lo + b.lo, a.hi + b.hi} }),
		op.SubDef:   ofBinary(func(a, b bounds) bounds { return bounds{a.lo - b.hi, a.hi - b.lo} }),
		op.MulDef:   ofBinary(bounds.times),
		op.MinDef:   ofBinary(func(a, b bounds) bounds { return bounds{min(a.lo, b.lo), min(a.hi, b.hi)} }),
		op.MaxDef:   ofBinary(func(a, b bounds) bounds { return bounds{max(a.lo, b.lo), max(a.hi, b.hi)} }),
		op.DivDef:   ofNatural(func(a, _ bounds) bounds { return bounds{0, a.hi} }),
		op.ModDef:   ofRemainder, op.RemainderDef: ofNatural(func(a, b bounds) bounds {
			return bounds{0, min(a.hi, b.hi-1)}
		}),
		op.ScatterDef: func(r *ranges, n *ir.Node) (bounds, bool) {
			reduce := n.Attrs.(op.ScatterAttrs).Reduce
			return r.of(n.In[0]).union(r.of(n.In[2])), reduce == "" || reduce == "none"
		},
		op.ReduceSumDef: func(r *ranges, n *ir.Node) (bounds, bool) {
			count := bounds{1, 1}
			for _, a := range n.Attrs.(op.ReduceAttrs).Axes {
				least, most := n.Graph.Syms.Bounds(n.In[0].Type.Shape[a])
				if count = count.times(bounds{least, min(most, summable)}); count.hi > summable {
					return bounds{}, false
				}
			}
			b := r.of(n.In[0])
			return b.times(count), b.summable()
		},
	}
}

// summable bounds the values that are computed with, so that sums and products do not wrap.
const summable = 1 << 30

func (b bounds) summable() bool { return b.lo >= -summable && b.hi <= summable }

func (b bounds) union(c bounds) bounds { return bounds{min(b.lo, c.lo), max(b.hi, c.hi)} }

func (b bounds) times(c bounds) bounds {
	w, x, y, z := b.lo*c.lo, b.lo*c.hi, b.hi*c.lo, b.hi*c.hi
	return bounds{min(w, x, y, z), max(w, x, y, z)}
}

// ofArg is for argmax and argmin.
func ofArg(_ *ranges, n *ir.Node) (bounds, bool) {
	return indexBounds(n, n.In[0].Type.Shape[n.Attrs.(op.ArgAttrs).Axis])
}

// ofFirst is for ops whose elements are those of the first operand.
func ofFirst(r *ranges, n *ir.Node) (bounds, bool) { return r.of(n.In[0]), true }

func ofBinary(f func(a, b bounds) bounds) func(r *ranges, n *ir.Node) (bounds, bool) {
	return func(r *ranges, n *ir.Node) (bounds, bool) {
		a, b := r.of(n.In[0]), r.of(n.In[1])
		if !n.Type.DType.IsInt() || !a.summable() || !b.summable() {
			return bounds{}, false
		}
		return f(a, b), true
	}
}

// ofNatural is ofBinary for dividends that are not negative and divisors that are at least 1.
func ofNatural(f func(a, b bounds) bounds) func(r *ranges, n *ir.Node) (bounds, bool) {
	return func(r *ranges, n *ir.Node) (bounds, bool) {
		a, b := r.of(n.In[0]), r.of(n.In[1])
		return f(a, b), n.Type.DType.IsInt() && a.lo >= 0 && b.lo >= 1
	}
}

// ofRemainder is for mod, whose result has the sign of the divisor.
func ofRemainder(r *ranges, n *ir.Node) (bounds, bool) {
	b := r.of(n.In[1])
	return bounds{0, b.hi - 1}, n.Type.DType.IsInt() && b.lo >= 1
}

// indexBounds returns the bounds of indices on an axis of a size.
func indexBounds(n *ir.Node, size ir.Dim) (bounds, bool) {
	_, most := n.Graph.Syms.Bounds(size)
	return bounds{0, max(0, most-1)}, n.Type.DType.IsInt()
}

// largestTable is the number of elements up to which the values of a param are looked at.
const largestTable = 1 << 16

// ofParam returns the bounds of the values of a small integer param that no session may replace.
func (r *ranges) ofParam(n *ir.Node) (bounds, bool) {
	c := r.c
	if !n.Type.DType.IsInt() || !n.Type.Shape.IsStatic() || n.Type.Bytes(nil) > largestTable*8 {
		return bounds{}, false
	}
	var values []int64
	if v, folded := c.report.Folded[n.Name]; folded {
		values = v.Array().Ints
	} else if c.params == nil || c.mutable != nil && c.mutable(n.Name) {
		return bounds{}, false
	} else if v, err := c.params.Param(n.Name); err == nil { // an error comes again when the param is written
		values = v.Ints
	}
	if len(values) == 0 {
		return bounds{}, false
	}
	b := bounds{values[0], values[0]}
	for _, v := range values {
		b = b.union(bounds{v, v})
	}
	return b, true
}
