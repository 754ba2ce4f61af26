// Package pass turns a graph as models write it into the graph that a target runs: blocks are lowered, what is known at
// compile time is computed, and chains of ops become the fused ops of the target. One pass, one file; passes.go is the
// pipeline.
//
// It imports core/rewrite, core/op and below: no planner, no file format, no model. It is part of the compiler only.
package pass

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/rewrite"
	"github.com/rlx-go/rlx/core/tensor"
)

// Target says what the final graph may hold.
type Target struct {
	Name  string
	Level ir.Level // the highest level of op: Core or Fused
	// Broadcast: kernels of elementwise ops take any NumPy broadcast, not only scalars and suffixes of the shape.
	Broadcast bool
}

// The targets.
var (
	Portable = Target{Name: "portable", Level: ir.Core}              // ops that every backend runs
	CPU      = Target{Name: "cpu", Level: ir.Fused, Broadcast: true} // and the fused ops
)

// Targets lists the targets that a model is compiled for unless others are asked for, most general first.
func Targets() []Target { return []Target{Portable, CPU} }

// levels are the processors that a schedule for cpu may demand: "cpu:x86-64-v4" is the schedule of "cpu" that the cpu backend
// runs on a processor of at least that level only. Passes do not depend on it.
var levels = []string{"x86-64-v3", "x86-64-v4", "arm64"}

// TargetNames lists all targets, most general first.
func TargetNames() []string {
	var names []string
	for _, t := range Targets() {
		names = append(names, t.Name)
	}
	for _, l := range levels {
		names = append(names, CPU.Name+":"+l)
	}
	return names
}

// ErrTarget is an unknown target.
var ErrTarget = code.Target

// FindTarget returns the target of that name.
func FindTarget(name string) (Target, error) {
	known := TargetNames()
	if !slices.Contains(known, name) {
		return Target{}, diag.New(ErrTarget, "target", "%q is unknown; known are %s", name, strings.Join(known, ", "))
	}
	t := Portable
	if name != t.Name {
		t = CPU
		t.Name = name
	}
	return t, nil
}

// Params gives the values of weights. It is asked only for those that folding needs.
type Params interface {
	Param(name string) (*tensor.Array, error)
}

// Options of Run.
type Options struct {
	Params    Params                         // nil: nothing that depends on a weight is folded
	StopAfter string                         // name of the last pass to run; empty: all
	Dump      func(pass string, g *ir.Graph) // called with the input graph ("in") and after each pass
	Verify    bool                           // verify the graph after each pass
	Stop      func() error                   // asked before each pass: an error ends Run; may be nil
	Shared    *Shared                        // where Run keeps what the next target of the same graph need not do again; may be nil
}

// Site is a place in the graph where a rule fired or, with a reason, did not although it fitted.
type Site struct {
	Pass, Rule, Node string
	Miss             string // "" or MultiConsumer, BiasRankTooHigh, ...
}

// Report is what a run of the pipeline did.
type Report struct {
	Sites []Site
	// Nodes is the number of nodes before the first pass and after each pass that ran.
	Passes []PassStat
	// Folded holds the values of params that passes made ("folded/HASH", named by content, so methods share them).
	Folded map[string]tensor.Tensor
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

// String prints counts of what fired, then what was missed.
func (r *Report) String() string {
	var lines []string
	for name, n := range r.Fired() {
		lines = append(lines, fmt.Sprintf("%5d %s", n, name))
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[6:], b[6:]) })
	for _, s := range r.Missed() {
		lines = append(lines, fmt.Sprintf("miss  %s/%s at %s: %s", s.Pass, s.Rule, s.Node, s.Miss))
	}
	return strings.Join(lines, "\n") + "\n"
}

// context is what a pass works with.
type context struct {
	pass   string
	target Target
	params Params
	report *Report
	index  paramIndex
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

// rules applies local rewrites and records their sites.
func (c *context) rules(g *ir.Graph, rules []rewrite.Rule) (*ir.Graph, error) {
	g, events, err := rewrite.Apply(g, rules)
	for _, e := range events {
		c.report.Sites = append(c.report.Sites, Site{c.pass, e.Rule, e.Node, e.Miss})
	}
	return g, err
}

// param adds a param with a value that is known now, or the one of that value that g already has. Its name is its
// content, so that two methods which fold the same thing share one weight.
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
