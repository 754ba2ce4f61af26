package onnx

import (
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// This file computes with the sizes of tensors, as exporters do with Shape, Gather, Concat and arithmetic. Functions
// return nil where a result is not known during the import.

// keepsRows has ops that compute with data-dependent numbers of rows during the import.
var keepsRows = strings.Fields("Cast Concat Equal Mul Where")

// known returns the elements of all inputs, if at least one has sizes in it and all are known. If all are numbers, the
// ordinary conversion computes the result.
func (n *node) known() [][]elem {
	var out [][]elem
	some := false
	for _, v := range n.in {
		if v == nil {
			out = append(out, nil)
			continue
		}
		some = some || v.elems != nil
		l, ok := v.list()
		if _, rows := v.rows(); !ok || rows != nil && !slices.Contains(keepsRows, n.p.GetOpType()) {
			return nil
		}
		out = append(out, l)
	}
	if !some {
		return nil
	}
	return out
}

// pairwise applies f to the elements of two inputs. One of them may be a single number.
func (n *node) pairwise(d dtype.DType, f func(a, b elem) (elem, bool)) []*value {
	in := n.known()
	if in == nil || len(in) != 2 {
		return nil
	}
	shape := n.in[0].typ.Shape
	if len(in[1]) > len(in[0]) || len(in[1]) == len(in[0]) && n.in[1].typ.Rank() > n.in[0].typ.Rank() {
		shape = n.in[1].typ.Shape
	}
	size := max(len(in[0]), len(in[1]))
	if len(in[0]) != size && len(in[0]) != 1 || len(in[1]) != size && len(in[1]) != 1 {
		return nil
	}
	out := make([]elem, size)
	for i := range out {
		var ok bool
		if out[i], ok = f(in[0][i%len(in[0])], in[1][i%len(in[1])]); !ok {
			return nil
		}
	}
	return []*value{sizes(d, shape, out)}
}

// symbolicBinary has arithmetic with sizes.
var symbolicBinary = map[string]func(n *node) []*value{
	"Add": func(n *node) []*value {
		return n.pairwise(n.in[0].typ.DType, func(a, b elem) (elem, bool) { return sum(a, b, false) })
	},
	"Sub": func(n *node) []*value {
		return n.pairwise(n.in[0].typ.DType, func(a, b elem) (elem, bool) { return sum(a, b, true) })
	},
	"Mul": func(n *node) []*value {
		return n.pairwise(n.in[0].typ.DType, func(a, b elem) (elem, bool) {
			if b.rows != nil {
				a, b = b, a
			}
			if a.rows != nil {
				return a, b.num.Is(1) && b.den == 1 && b.rows == nil
			}
			p, ok := a.num.Mul(b.num)
			return reduced(p, a.den*b.den), ok
		})
	},
	"Div": func(n *node) []*value {
		d := n.in[0].typ.DType
		return n.pairwise(d, func(a, b elem) (elem, bool) { return n.quotient(a, b, d.IsFloat()) })
	},
	"Equal":          compared,
	"Greater":        compared,
	"GreaterOrEqual": compared,
	"Less":           compared,
	"LessOrEqual":    compared,
}

// settling returns, for a comparison of integers a and b, numbers that are not negative where it is true, and where it
// is false. Equal has two for false.
func settling(name string, a, b ir.Dim) (yes, no []ir.Dim, ok bool) {
	minus := func(x, y ir.Dim, more int64) ir.Dim { // x-y-more
		d, fits := x.Sub(y)
		d, fits2 := d.Sub(ir.Static(more))
		ok = ok && fits && fits2
		return d
	}
	ok = true
	switch name {
	case "Equal":
		no = []ir.Dim{minus(a, b, 1), minus(b, a, 1)}
	case "Greater":
		yes, no = []ir.Dim{minus(a, b, 1)}, []ir.Dim{minus(b, a, 0)}
	case "GreaterOrEqual":
		yes, no = []ir.Dim{minus(a, b, 0)}, []ir.Dim{minus(b, a, 1)}
	case "Less", "LessOrEqual":
		return settling(strings.Replace(name, "Less", "Greater", 1), b, a)
	}
	return yes, no, ok
}

// compared compares sizes, where their ranges decide.
func compared(n *node) []*value {
	name := n.p.GetOpType()
	return n.pairwise(dtype.Bool, func(a, b elem) (elem, bool) {
		if name == "Equal" && a == b {
			return integer(ir.Static(1)), true
		}
		if a.rows != nil || b.rows != nil { // it is only known that they are not negative
			negative := func(x elem) bool { return x.rows == nil && x.num.IsStatic() && x.num.Const < 0 }
			return integer(ir.Static(0)), negative(a) || negative(b)
		}
		yes, no, ok := settling(name, a.num, b.num)
		if !ok || a.den != 1 || b.den != 1 {
			return elem{}, false
		}
		always := func(d ir.Dim) bool {
			lo, _ := n.b.g.Syms.Bounds(d)
			return lo >= 0
		}
		switch {
		case slices.ContainsFunc(yes, always):
			return integer(ir.Static(1)), true
		case slices.ContainsFunc(no, always):
			return integer(ir.Static(0)), true
		}
		return elem{}, false
	})
}

var comparisons = strings.Fields("Equal Greater GreaterOrEqual Less LessOrEqual")

// passesOn has ops whose result is a condition on sizes if an input is.
var passesOn = strings.Fields("And Cast Identity Not Or Reshape Squeeze Unsqueeze")

// decidedBy returns what makes the result of a node known; see value.decided.
func (n *node) decidedBy() (out []ir.Dim) {
	if canonical(n.p.GetDomain()) != "" {
		return nil
	}
	name := n.p.GetOpType()
	if slices.Contains(passesOn, name) {
		for _, v := range n.in {
			if v != nil {
				out = append(out, v.decided...)
			}
		}
		return out
	}
	if !slices.Contains(comparisons, name) || len(n.in) != 2 || n.in[0] == nil || n.in[1] == nil {
		return nil
	}
	a, ok := n.in[0].list()
	b, ok2 := n.in[1].list()
	size := func(list []elem) bool { return len(list) == 1 && list[0].den == 1 && list[0].rows == nil }
	if !ok || !ok2 || !size(a) || !size(b) {
		return nil
	}
	yes, no, ok := settling(name, a[0].num, b[0].num)
	if !ok {
		return nil
	}
	return append(yes, no...)
}

func sum(a, b elem, minus bool) (elem, bool) {
	x, ok := a.num.Mul(ir.Static(b.den))
	y, ok2 := b.num.Mul(ir.Static(a.den))
	if !ok || !ok2 {
		return elem{}, false
	}
	if minus {
		x, ok = x.Sub(y)
	} else {
		x, ok = x.Add(y)
	}
	return reduced(x, a.den*b.den), ok
}

// reduced returns num/den, as an integer where den divides num.
func reduced(num ir.Dim, den int64) elem {
	if q, ok := num.Div(ir.Static(den)); ok {
		return integer(q)
	}
	return elem{num: num, den: den}
}

// quotient divides. Integers round toward zero; sizes are not negative, so that is downwards.
func (n *node) quotient(a, b elem, exact bool) (elem, bool) {
	if b.num.Is(0) {
		return elem{}, false
	}
	x, ok := a.num.Mul(ir.Static(b.den))
	if !ok {
		return elem{}, false
	}
	if q, whole := x.Div(b.num); whole {
		return reduced(q, a.den), true
	}
	if !b.num.IsStatic() || b.num.Const < 0 {
		return elem{}, false
	}
	den := a.den * b.num.Const
	if exact {
		return elem{num: x, den: den}, true
	}
	if lo, _ := n.b.g.Syms.Bounds(x); lo < 0 {
		return elem{}, false
	}
	q, ok := x.FloorDiv(den)
	return integer(q), ok
}

// each applies f to the elements of the only input.
func (n *node) each(d dtype.DType, f func(x elem) (elem, bool)) []*value {
	in := n.known()
	if in == nil {
		return nil
	}
	out := make([]elem, len(in[0]))
	for i, x := range in[0] {
		var ok bool
		if out[i], ok = f(x); !ok {
			return nil
		}
	}
	return []*value{sizes(d, n.in[0].typ.Shape, out)}
}

func floored(x elem) (elem, bool) {
	q, ok := x.num.FloorDiv(x.den)
	return integer(q), ok
}

func symbolicCast(n *node) []*value {
	d, ok := elementTypes[int32(n.int("to", 1))]
	if !ok || d == dtype.Bool {
		return nil
	}
	return n.each(d, func(x elem) (elem, bool) {
		if d.IsFloat() || x.den == 1 {
			return x, true
		}
		if lo, _ := n.b.g.Syms.Bounds(x.num); lo < 0 {
			return elem{}, false
		}
		return floored(x)
	})
}

func symbolicWhere(n *node) []*value {
	in := n.known()
	if in == nil {
		return nil
	}
	size := max(len(in[0]), len(in[1]), len(in[2]))
	var shape ir.Shape
	for _, v := range n.in {
		if v.numel() == int64(size) && v.typ.Rank() >= len(shape) {
			shape = v.typ.Shape
		}
	}
	for _, l := range in {
		if len(l) != 1 && len(l) != size {
			return nil
		}
	}
	out := make([]elem, size)
	for i := range out {
		c := in[0][i%len(in[0])].num
		if !c.IsStatic() || in[0][i%len(in[0])].rows != nil {
			return nil
		}
		k := 2
		if c.Const != 0 {
			k = 1
		}
		out[i] = in[k][i%len(in[k])]
	}
	return []*value{sizes(n.in[1].typ.DType, shape, out)}
}

// symbolicExtreme is the smaller or larger of two sizes, where the ranges of the symbols decide.
func symbolicExtreme(least bool) func(n *node) []*value {
	return func(n *node) []*value {
		return n.pairwise(n.in[0].typ.DType, func(a, b elem) (elem, bool) {
			d, ok := sum(a, b, true)
			lo, hi := n.b.g.Syms.Bounds(d.num)
			switch {
			case !ok:
				return elem{}, false
			case hi <= 0:
				if least {
					return a, true
				}
				return b, true
			case lo >= 0:
				if least {
					return b, true
				}
				return a, true
			}
			return elem{}, false
		})
	}
}

// symbolicUnary has functions of one size.
var symbolicUnary = map[string]func(n *node) []*value{
	"Floor": func(n *node) []*value { return n.each(n.in[0].typ.DType, floored) },
	"Ceil": func(n *node) []*value {
		return n.each(n.in[0].typ.DType, func(x elem) (elem, bool) {
			q, ok := x.num.CeilDiv(x.den)
			return integer(q), ok
		})
	},
	"Neg": func(n *node) []*value {
		return n.each(n.in[0].typ.DType, func(x elem) (elem, bool) {
			m, ok := x.num.Mul(ir.Static(-1))
			return elem{num: m, den: x.den}, ok
		})
	},
}
