package target

import (
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// RuleFor returns a native rule that accepts all of the nodes, which are of one op. It is narrow in element types, in
// how operands are broadcast, in bools and short texts among the attributes, and in the axis if that is always the
// last. It says nothing about numbers and sizes. The target must have the nodes' element types, and allow their ranks
// and their number of operands.
func RuleFor(nodes []*ir.Node) Rule {
	def := nodes[0].Op
	r := Rule{How: Native, Op: def.Name}
	r.In, r.More = operandsOf(nodes)
	if len(r.In) == 0 || choosesType(def) {
		r.Out = resultsOf(nodes)
	}
	if def.Elementwise && (len(r.In) > 1 || r.More) {
		for _, w := range []Word{Equal, Scalar, Suffix} {
			if c := (Condition{Broadcast, "=", []any{w}}); fitsAll(c, nodes) {
				r.If = append(r.If, c)
				break
			}
		}
	}
	for i, a := range def.Attrs(nodes[0].Attrs) {
		var values []any
		switch def.AttrKind(a.Name) {
		case "int", "ints":
			if last := (Condition{a.Name, "=", []any{Last}}); fitsAll(last, nodes) {
				values = last.Values
			}
		case "bool", "string":
			values = attrValues(nodes, i)
		}
		if values != nil {
			r.If = append(r.If, Condition{a.Name, "=", values})
		}
	}
	return r
}

// maxListed: a rule has the types of each of up to 8 operands of a variadic op. More operands share one list.
const maxListed = 8

// operandsOf returns the operands of a rule that accepts all of the nodes. With more set, each further operand is like
// the last.
func operandsOf(nodes []*ir.Node) (in []Operand, more bool) {
	def := nodes[0].Op
	for _, n := range nodes {
		for k, x := range n.Operands() {
			in = addType(in, k, x.Type.DType)
		}
	}
	differ := func(o Operand) bool { return !slices.Equal(o.Types, in[0].Types) }
	switch {
	case len(in) > 1 && len(in) >= len(def.Operands) && !slices.ContainsFunc(in, differ):
		return in[:1], true
	case !def.Variadic():
		for k := range in {
			if def.Operands[k].Optional {
				in[k].Name = def.Operands[k].Name
			}
		}
		return slices.DeleteFunc(in, func(o Operand) bool { return o.Types == nil }), false
	case len(in) > maxListed:
		var all []Operand
		for _, o := range in {
			for _, d := range o.Types {
				all = addType(all, 0, d)
			}
		}
		return all, true
	}
	return in, false
}

// choosesType reports whether attributes of the op name element types, so that its operands do not tell all about its
// results.
func choosesType(def *ir.OpDef) bool {
	return slices.ContainsFunc(def.AttrNames(), func(a string) bool { return def.AttrKind(a) == "dtype" })
}

// resultsOf returns the element types of each of the nodes' results.
func resultsOf(nodes []*ir.Node) (out []Operand) {
	for _, n := range nodes {
		for k, t := range n.ResultTypes() {
			out = addType(out, k, t.DType)
		}
	}
	return out
}

// attrValues returns the values that attribute i, a bool or a text, has in the nodes. It returns nil for a bool that
// has both values, which restricts nothing, and for a long text, such as that of a region, which restricts too much.
func attrValues(nodes []*ir.Node, i int) (values []any) {
	def := nodes[0].Op
	for _, n := range nodes {
		if v := def.Attrs(n.Attrs)[i].Value; !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	both := def.AttrKind(def.AttrNames()[i]) == "bool" && len(values) > 1
	if both || len(values) > 4 || slices.ContainsFunc(values, isLong) {
		return nil
	}
	text := func(v any) string { return ir.Attr{Value: v}.Text() }
	slices.SortFunc(values, func(a, b any) int { return strings.Compare(text(a), text(b)) })
	return values
}

// isLong reports whether a value is a text that is too long for a rule, or has more than a name in it.
func isLong(v any) bool {
	s, ok := v.(string)
	return ok && (len(s) > 24 || strings.ContainsAny(s, "(= "))
}

// addType adds an element type to those of operand or result k.
func addType(list []Operand, k int, d dtype.DType) []Operand {
	for len(list) <= k {
		list = append(list, Operand{})
	}
	if !slices.Contains(list[k].Types, d) {
		list[k].Types = append(slices.Clone(list[k].Types), d)
		slices.SortFunc(list[k].Types, byOrder)
	}
	return list
}

// byOrder compares element types by their order in a description.
func byOrder(a, b dtype.DType) int {
	return slices.Index(dtype.Known(), a) - slices.Index(dtype.Known(), b)
}

// fitsAll reports whether all nodes meet a condition.
func fitsAll(c Condition, nodes []*ir.Node) bool {
	d := &Description{}
	return !slices.ContainsFunc(nodes, func(n *ir.Node) bool { return d.unmet(c, n) != "" })
}

// With returns the description with more element types and rules. Limits grow so that the target takes nodes of this
// rank and with this many operands.
func (d *Description) With(types []dtype.DType, rank, operands int, rules ...Rule) *Description {
	e := *d
	e.Types, e.Rules = slices.Clone(d.Types), append(slices.Clone(d.Rules), rules...)
	for _, t := range types {
		if !e.HasType(t) {
			e.Types = append(e.Types, t)
		}
	}
	slices.SortFunc(e.Types, byOrder)
	if e.MaxRank > 0 {
		e.MaxRank = max(e.MaxRank, rank)
	}
	if e.MaxOperands > 0 {
		e.MaxOperands = max(e.MaxOperands, operands)
	}
	return e.Sort()
}
