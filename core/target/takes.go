package target

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/ir"
)

// Takes reports how the target runs a node, and why not if the result is No. The node need not be in a graph yet, but
// its Graph must be set. Inputs, params, states, views and result nodes need no kernel; the target must only have their
// element types.
func (d *Description) Takes(n *ir.Node) (How, string) {
	if n.Op == ir.ResultDef {
		return Native, "" // the tuple node decides
	}
	types := n.Types()
	for _, t := range types {
		if !d.HasType(t.DType) {
			return No, fmt.Sprintf("%s has no %v; its values are %s", d.Name, t.DType, join(d.Types, ", "))
		}
	}
	if _, view := n.View(); view || n.Op.Effects {
		return Native, ""
	}
	if n.Op.Block {
		return No, fmt.Sprintf("%s is a block; the compiler must lower it", n.OpName())
	}
	if k := n.Arity(); d.MaxOperands > 0 && k > d.MaxOperands && !n.Op.Nested {
		return No, fmt.Sprintf("%s takes at most %d operands; %s has %d", d.Name, d.MaxOperands, n.OpName(), k)
	}
	for _, t := range types {
		if d.MaxRank > 0 && t.Rank() > d.MaxRank {
			return No, fmt.Sprintf("%s takes at most rank %d; %v has rank %d", d.Name, d.MaxRank, t, t.Rank())
		}
	}
	var why []string
	for _, r := range d.rules(n.Op.Name) {
		w := d.misfit(r, n)
		if w == "" {
			w = d.unfit(n)
		}
		if w == "" {
			return r.How, ""
		}
		if !slices.Contains(why, w) {
			why = append(why, w)
		}
	}
	if len(d.rules(AnyOp)) > 0 && n.Op.Eval != nil && !n.Op.Nested {
		return Reference, ""
	}
	if why == nil {
		return No, fmt.Sprintf("%s has no rule for %s", d.Name, n.OpName())
	}
	return No, d.Name + ": " + strings.Join(why, ", or ")
}

// Lacks describes the first node of a graph that the target does not run, and why. It returns "" if the target runs
// all. Hosts ask it before they load a program, and a backend must refuse the same programs.
func (d *Description) Lacks(g *ir.Graph) string {
	for _, n := range g.Nodes {
		if how, why := d.Takes(n); how == No {
			return fmt.Sprintf("%s: %s", n.Label(), why)
		}
	}
	return ""
}

// unfit describes the first node that the target does not run in the graphs that are programs of the node's own. It
// returns "" if it runs all.
func (d *Description) unfit(n *ir.Node) string {
	for _, b := range n.Programs() {
		for _, x := range b.Nodes {
			if how, why := d.Takes(x); how == No {
				return fmt.Sprintf("%s: graph %s: %s: %s", n.OpName(), b.Name, x.Label(), why)
			}
		}
	}
	return ""
}

// misfit describes the first requirement of a rule that a node does not meet. It returns "" if the node meets all.
func (d *Description) misfit(r Rule, n *ir.Node) string {
	for k, x := range n.Operands() {
		o, ok := r.operand(n.Op, k)
		if !ok {
			return fmt.Sprintf("%s has an operand %s, which the rule does not take", n.OpName(), n.Op.OperandName(k))
		}
		if w := o.misfit(x.Type, n, x); w != "" {
			return fmt.Sprintf("operand %s of %s %s", n.Op.OperandName(k), n.OpName(), w)
		}
	}
	for k, t := range n.ResultTypes() {
		if r.Out == nil {
			break
		}
		if w := r.Out[min(k, len(r.Out)-1)].misfit(t, n, n); w != "" {
			return fmt.Sprintf("result %d of %s %s", k, n.OpName(), w)
		}
	}
	for _, c := range r.If {
		if w := d.unmet(c, n); w != "" {
			return fmt.Sprintf("%s: %s", n.OpName(), w)
		}
	}
	return ""
}

// misfit describes the first requirement of o that x, an operand or a result of n, does not meet, or returns "". t is
// the type of x.
func (o Operand) misfit(t ir.Type, n, x *ir.Node) string {
	switch {
	case o.Same && len(n.In) > 0 && t.DType != n.In[0].Type.DType:
		return fmt.Sprintf("is %v; want %v, the type of %s", t.DType, n.In[0].Type.DType, n.Op.OperandName(0))
	case o.Types != nil && !slices.Contains(o.Types, t.DType):
		return fmt.Sprintf("is %v; want %s", t.DType, join(o.Types, " or "))
	case o.Ranked && (t.Rank() < o.MinRank || t.Rank() > o.MaxRank):
		return fmt.Sprintf("is %v; want %s", t, o.rank())
	case o.Static && !t.Shape.IsStatic():
		return fmt.Sprintf("is %v; want sizes without symbols", t)
	case o.Param && !isKnown(x):
		return "is computed; want a weight"
	}
	return ""
}

// isKnown reports whether n is a param or a constant, or a view of one. Constants with views may become params.
func isKnown(n *ir.Node) bool {
	for {
		if _, view := n.View(); !view {
			return n.Op.Name == "param" || n.Op.Name == "const"
		}
		n = n.In[0]
	}
}

// unmet says why a condition does not hold. It returns "" if it does.
func (d *Description) unmet(c Condition, n *ir.Node) string {
	switch c.Attr {
	case Broadcast:
		for k, x := range n.Operands() {
			if !broadcasts(c.Values[0].(Word), x.Type.Shape, n.Type.Shape) {
				return fmt.Sprintf("operand %s is %v and the result %v; want %s", n.Op.OperandName(k), x.Type, n.Type,
					c)
			}
		}
		return ""
	case Parts:
		return d.partsUnmet(n)
	}
	for _, a := range named(n.Op.Attrs(n.Attrs)) {
		if a.Name != c.Attr {
			continue
		}
		for _, v := range c.Values {
			if c.holds(a.Value, v, n) {
				return ""
			}
		}
		return fmt.Sprintf("%s is %s; want %s", a.Name, a.Text(), c)
	}
	return fmt.Sprintf("it has no attribute %s", c.Attr)
}

// named returns the attributes of a node, with those in lists that have names of their own.
func named(attrs []ir.Attr) []ir.Attr {
	for _, a := range attrs {
		if own, ok := a.Value.([]ir.Attr); ok {
			attrs = append(slices.Clone(attrs), own...)
		}
	}
	return attrs
}

// holds reports whether the value of an attribute meets the condition with one of its values.
func (c Condition) holds(have, want any, n *ir.Node) bool {
	if want == Last {
		last := int64(-1)
		if len(n.In) > 0 {
			last = int64(n.In[0].Type.Rank() - 1)
		}
		switch x := have.(type) {
		case int64:
			return x == last
		case []int64:
			return len(x) == 1 && x[0] == last
		}
		return false
	}
	if c.Rel == "=" {
		if list, ok := have.([]int64); ok {
			w, ok := want.([]int64)
			return ok && slices.Equal(list, w)
		}
		if w, ok := want.(int64); ok {
			if x, ok := have.(float64); ok {
				return x == float64(w)
			}
		}
		if x, ok := have.(string); ok { // a function, possibly with attributes in parentheses
			w, ok := want.(string)
			return ok && (x == w || w != "" && strings.HasPrefix(x, w+"("))
		}
		return have == want
	}
	limit, ok := number(want)
	within := func(v float64) bool {
		if c.Rel == "<=" {
			return v <= limit
		}
		return v >= limit
	}
	if list, isList := have.([]int64); isList {
		return ok && !slices.ContainsFunc(list, func(v int64) bool { return !within(float64(v)) })
	}
	v, isNumber := number(have)
	return ok && isNumber && within(v)
}

func number(v any) (float64, bool) {
	switch x := v.(type) {
	case int64:
		return float64(x), true
	case float64:
		return x, true
	}
	return 0, false
}

// broadcasts reports whether w allows the way in which an operand of shape s is broadcast to the shape full.
func broadcasts(w Word, s, full ir.Shape) bool {
	for len(s) > 0 && s[0].Is(1) && w != Equal {
		s = s[1:]
	}
	switch w {
	case Equal:
		return s.Equal(full)
	case Scalar:
		for len(full) > len(s) && full[0].Is(1) {
			full = full[1:]
		}
		return len(s) == 0 || s.Equal(full)
	}
	return len(s) <= len(full) && s.Equal(full[len(full)-len(s):])
}

// partsUnmet lowers the node in a temporary graph. It says why the target does not run one of the ops natively, or
// returns "".
func (d *Description) partsUnmet(n *ir.Node) string {
	leaf, ok := ir.Find("input")
	if !ok || !n.Op.CanLower() {
		return "it has no expansion"
	}
	g := ir.NewGraph("parts", n.Graph.Syms...)
	in := n.MapIn(func(x *ir.Node) *ir.Node { return g.AddDeclared(leaf, leaf.NewAttrs(), x.Type) })
	m := *n
	m.In, m.Graph = in, g
	if err := g.Build(func() { n.Op.LowerTo(g, &m, in) }); err != nil {
		return err.Error()
	}
	for _, x := range g.Nodes {
		if len(x.In) == 0 {
			continue // an operand or a constant
		}
		if how, why := d.Takes(x); how != Native {
			if why == "" {
				why = x.OpName() + " runs by reference"
			}
			return why
		}
	}
	return ""
}
