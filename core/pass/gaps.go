package pass

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/target"
)

// Lacks lists the nodes of a legalized graph that the target does not run.
func Lacks(d *target.Description, g *ir.Graph) (out []*ir.Node) {
	for _, n := range g.Nodes {
		if how, _ := d.Takes(n); how == target.No && !(Stored(n) && d.HasType(n.Type.DType)) {
			out = append(out, n)
		}
	}
	return out
}

// Need lists what a target lacks.
type Need struct {
	Nodes    []*ir.Node    // that it would run
	Types    []dtype.DType // of values
	Rank     int           // the largest, if it is above the target's limit
	Operands int           // likewise
}

// Way is a rewrite that the compiler tried for a node that the target does not run.
type Way struct {
	Name string // such as "by its expansion"
	// Need would let the target run the node in this way. It is in terms of the nodes of the rewrite, or of their
	// rewrites, whichever are fewer.
	Need
}

// Explainer finds what a target lacks to run nodes. It remembers answers, so use one Explainer for many nodes.
type Explainer struct {
	has    *target.Description
	to     *target.Description // has with all element types and without limits, so that only rules are lacking
	fewest map[string]Need
}

// NewExplainer returns an Explainer for a target.
func NewExplainer(d *target.Description) *Explainer {
	to := *d.With(dtype.Known(), 0, 0)
	to.MaxRank, to.MaxOperands = 0, 0
	return &Explainer{has: d, to: &to, fewest: map[string]Need{}}
}

// Ways lists the rewrites that apply to a node that the target does not run, and what each needs.
func (e *Explainer) Ways(n *ir.Node) (out []Way) {
	for _, way := range ways {
		s, leaves := scratch(n)
		var results []*ir.Node
		if err := s.Build(func() { results = way.rewrite(s, leaves, n) }); err != nil || results == nil {
			continue
		}
		need := needed(s, results)
		w := Way{Name: way.name}
		for _, x := range s.Nodes {
			if need[x.ID] && !slices.Contains(leaves, x) {
				w.Need.Add(e.Fewest(x))
			}
		}
		out = append(out, w)
	}
	return out
}

// Fewest returns what the target needs to run n: a rule for n itself, unless rules for at most as many other ops
// suffice.
func (e *Explainer) Fewest(n *ir.Node) Need {
	if Stored(n) {
		if e.has.HasType(n.Type.DType) {
			return Need{}
		}
		return Need{Types: []dtype.DType{n.Type.DType}}
	}
	key := Signature(n)
	if known, ok := e.fewest[key]; ok {
		return known
	}
	best := e.Own(n)
	e.fewest[key] = best // for a rewrite that contains n again
	if best.cost() > 0 {
		for _, w := range e.Ways(n) {
			if w.cost() <= best.cost() { // at equality prefer parts, which serve other ops, too
				best = w.Need
			}
		}
	}
	e.fewest[key] = best
	return best
}

// Own returns what the target needs to run n as it is.
func (e *Explainer) Own(n *ir.Node) (need Need) {
	for _, t := range n.Types() {
		if !e.has.HasType(t.DType) && !slices.Contains(need.Types, t.DType) {
			need.Types = append(need.Types, t.DType)
		}
		if e.has.MaxRank > 0 && t.Rank() > max(e.has.MaxRank, need.Rank) {
			need.Rank = t.Rank()
		}
	}
	if k := n.Arity(); e.has.MaxOperands > 0 && k > e.has.MaxOperands && !n.Op.Nested {
		need.Operands = k
	}
	if how, _ := e.to.Takes(n); how == target.No {
		need.Nodes = []*ir.Node{n}
	}
	return need
}

// Add adds what m lacks to n.
func (n *Need) Add(m Need) {
	for _, x := range m.Nodes {
		k := Signature(x)
		if !slices.ContainsFunc(n.Nodes, func(y *ir.Node) bool { return y == x || y.Op == x.Op && Signature(y) == k }) {
			n.Nodes = append(slices.Clip(n.Nodes), x)
		}
	}
	for _, t := range m.Types {
		if !slices.Contains(n.Types, t) {
			n.Types = append(slices.Clip(n.Types), t)
		}
	}
	n.Rank, n.Operands = max(n.Rank, m.Rank), max(n.Operands, m.Operands)
}

// cost is the number of lines that a description would need.
func (n Need) cost() int {
	seen := map[string]bool{}
	for _, x := range n.Nodes {
		seen[x.Op.Name] = true
	}
	return len(seen) + len(n.Types) + min(n.Rank, 1) + min(n.Operands, 1)
}

// Rules returns a rule for each op among the nodes, by name.
func (n Need) Rules() (out []target.Rule) {
	by := map[string][]*ir.Node{}
	for _, x := range n.Nodes {
		by[x.Op.Name] = append(by[x.Op.Name], x)
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		out = append(out, target.RuleFor(by[name]))
	}
	return out
}

// Extend returns the description with the types and rules of n.
func (n Need) Extend(d *target.Description) *target.Description {
	types := slices.Clone(n.Types)
	for _, x := range n.Nodes {
		for _, t := range x.Types() {
			types = append(types, t.DType)
		}
	}
	return d.With(types, n.Rank, n.Operands, n.Rules()...)
}

// Signature returns a text that is the same for two nodes if no rule of a target can distinguish them.
func Signature(n *ir.Node) string {
	var b strings.Builder
	b.WriteString(n.OpName())
	for _, a := range n.Op.Attrs(n.Attrs) {
		fmt.Fprintf(&b, " %s", a.Text())
	}
	for k, x := range n.Operands() {
		fmt.Fprintf(&b, " %d %v %v %v", k, x.Type, known(x), x.Is(op.ParamDef))
	}
	for _, t := range n.ResultTypes() {
		fmt.Fprintf(&b, " -> %v", t)
	}
	return b.String()
}

// Why returns the reason why a target does not run a node in any form, or "" if it runs the node. With the rules of
// need the target would run it; see Explainer.Fewest.
func Why(d *target.Description, n *ir.Node) (why string, need Need) {
	if Runs(d, n) {
		return "", need
	}
	_, why = d.Takes(n)
	return why, NewExplainer(d).Fewest(n)
}

// Origin describes where in the model a node comes from. It returns the name of the node, or of the nearest value that
// has a name.
func Origin(n *ir.Node) string { return origin(n) }
