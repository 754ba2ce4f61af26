// Package pass turns a graph as models write it into the graph that a target runs: blocks are lowered, known
// values are computed, chains of ops are fused, and ops that the target lacks are expressed by others. The target's description
// (package target) decides each time. One pass, one file; passes.go is the pipeline.
//
// It imports core/rewrite, core/op and below: no planner, no file format, no model. It is part of the compiler only.
package pass

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/rewrite"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/core/tensor"
)

// Params gives the values of weights. It is asked only for those that folding needs.
type Params interface {
	Param(name string) (*tensor.Array, error)
}

// Options of Run.
type Options struct {
	Params    Params                         // nil means that nothing that depends on a weight is folded
	StopAfter string                         // name of the last pass to run; empty means all
	Dump      func(pass string, g *ir.Graph) // called with the input graph ("in") and after each pass
	Verify    bool                           // verify the graph after each pass
	Stop      func() error                   // called before each pass; an error ends Run; may be nil
	Shared    *Shared                        // keeps results that are the same for the next target of the graph; may be nil

	Activations string // op.ActivationsQ8: products with packed weights round their activations, where the target runs that

	// Elsewhere reports a node that another target runs. Such nodes stay as they are where this one cannot run them; nil means that there
	// are none, and then the first is an error. It goes together with StopAfter.
	Elsewhere func(n *ir.Node) bool
}

// Site is a node at which a rule fired, or at which it matched and did not fire, with the reason.
type Site struct {
	Pass, Rule, Node string
	Miss             string // "" or MultiConsumer, BiasRankTooHigh, ...
}

// Report lists what a run of the pipeline did.
type Report struct {
	Sites []Site
	// Nodes is the number of nodes before the first pass and after each pass that ran.
	Passes []PassStat
	// Rewritten counts the ops that the target does not run and that were expressed by others; Reference those that it runs only
	// by their definitions. Both are sorted by op.
	Rewritten, Reference []OpCount
	// Folded holds the values of params that passes made ("folded/HASH", named by content, so methods share them).
	Folded map[string]tensor.Tensor
}

// OpCount is a number of nodes of one op.
type OpCount struct {
	Op    string
	Count int
}

// PassStat is the size of the graph after a pass.
type PassStat struct {
	Name  string
	Nodes int
}

// Fired counts the sites of each rule that fired, as "pass/rule".
func (r *Report) Fired() map[string]int {
	m := map[string]int{}
	for _, s := range r.Sites {
		if s.Miss == "" {
			m[s.Pass+"/"+s.Rule]++
		}
	}
	return m
}

// Missed lists the sites that were not rewritten.
func (r *Report) Missed() []Site {
	return slices.DeleteFunc(slices.Clone(r.Sites), func(s Site) bool { return s.Miss == "" })
}

// String prints counts of the rules that fired, then missed sites, then the ops that run by reference.
func (r *Report) String() string {
	var lines []string
	for name, n := range r.Fired() {
		lines = append(lines, fmt.Sprintf("%5d %s", n, name))
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[6:], b[6:]) })
	for _, s := range r.Missed() {
		lines = append(lines, fmt.Sprintf("miss  %s/%s at %s: %s", s.Pass, s.Rule, s.Node, s.Miss))
	}
	for _, c := range r.Reference {
		lines = append(lines, fmt.Sprintf("%5d %s by reference: the target has no kernel for it, and its expansion would not be native either", c.Count, c.Op))
	}
	return strings.Join(lines, "\n") + "\n"
}

// context is the state of a pass.
type context struct {
	pass   string
	target *target.Description
	asks   bool // of Pass
	params Params
	report *Report
	index  paramIndex

	activations string                // of Options
	elsewhere   func(n *ir.Node) bool // of Options
}

// count adds one to the op's entry.
func count(list []OpCount, op string) []OpCount {
	i, found := slices.BinarySearchFunc(list, op, func(c OpCount, op string) int { return strings.Compare(c.Op, op) })
	if !found {
		list = slices.Insert(list, i, OpCount{Op: op})
	}
	list[i].Count++
	return list
}

// paramIndex finds the params of a graph that only grows by their names, and looks at each node once.
type paramIndex struct {
	g      *ir.Graph
	seen   int // nodes of g
	byName map[string]*ir.Node
}

func (x *paramIndex) find(g *ir.Graph, name string) *ir.Node {
	if x.g != g {
		*x = paramIndex{g: g, byName: map[string]*ir.Node{}}
	}
	for ; x.seen < len(g.Nodes); x.seen++ {
		if n := g.Nodes[x.seen]; n.Is(op.ParamDef) {
			x.byName[n.Name] = n
		}
	}
	return x.byName[name]
}

// fired and missed record a site.
func (c *context) fired(rule string, n *ir.Node) { c.site(rule, n, "") }
func (c *context) missed(rule string, n *ir.Node, reason string) {
	c.site(rule, n, reason)
}

func (c *context) site(rule string, n *ir.Node, miss string) {
	c.report.Sites = append(c.report.Sites, Site{c.pass, rule, n.Label(), miss})
}

// replace builds the replacement of n in out, and records the site. If the target would run it less well than n, it builds nothing
// and returns nil.
func (c *context) replace(out *ir.Graph, rule string, n *ir.Node, build func() *ir.Node) *ir.Node {
	before := len(out.Nodes)
	r := build()
	if c.asks {
		for _, made := range out.Nodes[before:] {
			if why := c.refuse(n, made); why != "" {
				out.Nodes = out.Nodes[:before]
				c.missed(rule, n, why)
				return nil
			}
		}
	}
	c.fired(rule, n)
	return r
}

// rules applies local rewrites and records their sites.
func (c *context) rules(g *ir.Graph, rules []rewrite.Rule) (*ir.Graph, error) {
	var refuse func(old, made *ir.Node) string
	if c.asks {
		refuse = c.refuse
	}
	g, events, err := rewrite.Apply(g, rules, refuse)
	for _, e := range events {
		c.report.Sites = append(c.report.Sites, Site{c.pass, e.Rule, e.Node, e.Miss})
	}
	return g, err
}

// param adds a param with a known value, or returns the one with that value that g already has. Its name is a hash of its content,
// so that two methods which fold the same value share one weight.
func (c *context) param(g *ir.Graph, value tensor.Tensor, t ir.Type) *ir.Node {
	h := sha256.New()
	fmt.Fprintln(h, t)
	h.Write(value.Data)
	name := "folded/" + hex.EncodeToString(h.Sum(nil)[:8])
	if n := c.index.find(g, name); n != nil {
		return n
	}
	c.report.Folded[name] = value
	return op.Param(g, name, t)
}
