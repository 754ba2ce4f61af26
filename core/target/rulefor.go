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
	for _, n := range nodes {
		for k, x := range n.Operands() {
			r.In = addType(r.In, k, x.Type.DType)
		}
	}
	differ := func(o Operand) bool { return !slices.Equal(o.Types, r.In[0].Types) }
	if len(r.In) > 1 && len(r.In) >= len(def.Operands) && !slices.ContainsFunc(r.In, differ) {
		r.In, r.More = r.In[:1], true
	} else if !def.Variadic() {
		for k := range r.In {
			if def.Operands[k].Optional {
				r.In[k].Name = def.Operands[k].Name
			}
		}
		r.In = slices.DeleteFunc(r.In, func(o Operand) bool { return o.Types == nil })
	} else if len(r.In) > 8 {
		var all Operand
		for _, o := range r.In {
			for _, d := range o.Types {
				all = addType([]Operand{all}, 0, d)[0]
			}
		}
		r.In, r.More = []Operand{all}, true
	}
	if len(r.In) == 0 ||
		slices.ContainsFunc(def.AttrNames(), func(a string) bool { return def.AttrKind(a) == "dtype" }) {
		for _, n := range nodes {
			for k, t := range n.ResultTypes() {
				r.Out = addType(r.Out, k, t.DType)
			}
		}
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
		c := Condition{a.Name, "=", nil}
		switch def.AttrKind(a.Name) {
		case "int", "ints":
			if last := (Condition{a.Name, "=", []any{Last}}); fitsAll(last, nodes) {
				c = last
			}
		case "bool", "string":
			for _, n := range nodes {
				if v := def.Attrs(n.Attrs)[i].Value; !slices.Contains(c.Values, v) {
					c.Values = append(c.Values, v)
				}
			}
			// A bool that may be either says nothing, and text that is long, such as that of a region, says too much.
			either := def.AttrKind(a.Name) == "bool" && len(c.Values) > 1
			if either || len(c.Values) > 4 || slices.ContainsFunc(c.Values, isLong) {
				c.Values = nil
			}
			text := func(v any) string { return ir.Attr{Value: v}.Text() }
			slices.SortFunc(c.Values, func(a, b any) int { return strings.Compare(text(a), text(b)) })
		}
		if c.Values != nil {
			r.If = append(r.If, c)
		}
	}
	return r
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
