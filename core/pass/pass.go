// Package pass turns the graph that a model builds into the graph that a target runs. Passes lower blocks, compute
// known values, fuse chains of ops, and express ops that the target lacks by others. The target's description (package
// target) decides what a pass may do. Each pass has its own file; passes.go has the pipeline.
//
// It imports core/rewrite, core/custom, core/op and what these import, but no planner, no file format and no model.
// Only the compiler uses it.
package pass

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/custom"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/rewrite"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/core/tensor"
)

// Params returns the values of weights. It is called only for weights that folding needs.
type Params interface {
	Param(name string) (*tensor.Array, error)
}

// Options control Run.
type Options struct {
	Params Params // nil means not to fold values that depend on weights
	// Mutable reports whether a session may replace a weight. Nothing is computed from the values of such a weight. Nil
	// means that no weight is replaced.
	Mutable   func(name string) bool
	StopAfter string                         // name of the last pass to run; empty means all
	Dump      func(pass string, g *ir.Graph) // called with the input graph ("in") and after each pass
	Verify    bool                           // verify the graph after each pass
	Stop      func() error                   // called before each pass; an error ends Run; may be nil
	Shared    *Shared                        // shares results between calls for several targets; may be nil

	Memory Memory // reserves memory before constants are computed; may be nil

	// op.ActivationsQ8 lets products with packed weights round their activations, if the target has a kernel for that
	Activations string

	// Custom has the definitions whose patterns are searched for; may be nil. Custom ops in the graph need no
	// definition.
	Custom *custom.Library

	// Unroll replaces op.UnrollNodes, the number of nodes up to which loops are unrolled, for tests. 0 means
	// op.UnrollNodes, a negative number that only targets without loops unroll.
	Unroll int

	// Elsewhere reports whether another target runs a node. If this target cannot run such a node, it stays as it is.
	// Any other node that the target cannot run is an error. Elsewhere may be nil. It is used together with StopAfter.
	Elsewhere func(n *ir.Node) bool
	// Keep leaves every node that the target cannot run as it is; Lacks lists them. It is used together with StopAfter.
	Keep bool

	within *Report // so far, of the graph that contains the loop whose body is compiled; else nil
}

// Memory limits the memory for values that are known at compile time. Memory is reserved before it is allocated. An
// error of Reserve ends Run.
type Memory interface {
	Reserve(what string, bytes int64) error
	Release(what string, bytes int64)
}

// Site is a node at which a rule fired, or at which it matched but did not fire.
type Site struct {
	Pass, Rule, Node string
	Miss             string // why the rule did not fire, such as MultiConsumer; empty if it fired
}

// Report describes a run of the pipeline.
type Report struct {
	Sites []Site
	// Passes has the number of nodes before the first pass and after each pass that ran.
	Passes []PassStat
	// Rewritten counts the ops that the target does not run and that were expressed by others. Reference counts those
	// that it runs only by their definitions. Both are sorted by op.
	Rewritten, Reference []OpCount
	// Folded has the values of params that passes made. Their names ("folded/HASH") depend on the content, so methods
	// share them.
	Folded map[string]tensor.Tensor

	bodies map[string]string // texts of the graphs of loops, by name
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

// Fired returns the number of sites at which each rule fired, by "pass/rule".
func (r *Report) Fired() map[string]int {
	m := map[string]int{}
	for _, s := range r.Sites {
		if s.Miss == "" {
			m[s.Pass+"/"+s.Rule]++
		}
	}
	return m
}

// Missed returns the sites at which a rule matched but did not fire.
func (r *Report) Missed() []Site {
	return slices.DeleteFunc(slices.Clone(r.Sites), func(s Site) bool { return s.Miss == "" })
}

// String returns the number of sites of each rule that fired, then the missed sites, then the ops that run by
// reference.
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
		lines = append(
			lines, fmt.Sprintf(
				"%5d %s by reference: the target has no kernel for it, and its expansion would not be native either",
				c.Count, c.Op))
	}
	return strings.Join(lines, "\n") + "\n"
}

// context is the state of a pass.
type context struct {
	pass   string
	target *target.Description
	asks   bool // see Pass.Asks
	params Params
	// mutable is Options.Mutable
	mutable func(name string) bool
	report  *Report
	index   paramIndex

	memory Memory       // may be nil
	stop   func() error // may be nil

	activations string                // see Options.Activations
	custom      *custom.Library       // see Options.Custom
	elsewhere   func(n *ir.Node) bool // see Options.Elsewhere
	keep        bool                  // see Options.Keep

	unrollNodes int64 // see Options.Unroll
	// nested runs the pipeline on a graph of a loop
	nested func(b *ir.Graph) (*ir.Graph, *Report, error)
}

// reserve reserves memory for computing constants, and checks whether to stop.
func (c *context) reserve(what string, bytes int64) error {
	if c.stop != nil {
		if err := c.stop(); err != nil {
			return err
		}
	}
	if c.memory == nil {
		return nil
	}
	return c.memory.Reserve(what, bytes)
}

func (c *context) release(what string, bytes int64) {
	if c.memory != nil {
		c.memory.Release(what, bytes)
	}
}

// Purposes for which memory is reserved, as errors name them: values while they are computed, and values that the
// artifact gets.
const (
	folding = "constant folding"
	stores  = "folded constants"
)

// count adds one to the entry of an op in a list that is sorted by op.
func count(list []OpCount, op string) []OpCount {
	i, found := slices.BinarySearchFunc(list, op, func(c OpCount, op string) int { return strings.Compare(c.Op, op) })
	if !found {
		list = slices.Insert(list, i, OpCount{Op: op})
	}
	list[i].Count++
	return list
}

// addCounts returns the sums of two lists of counts.
func addCounts(list, more []OpCount) []OpCount {
	for _, c := range more {
		for range c.Count {
			list = count(list, c.Op)
		}
	}
	return list
}

// paramIndex finds params by name in a graph to which nodes are only added. It looks at each node once.
type paramIndex struct {
	g      *ir.Graph
	seen   int // number of nodes of g that are in the index
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

// replace builds the replacement of n in out and records the site. If the target would run the replacement less well
// than n, it adds nothing and returns nil.
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

// rebuild is Graph.Rebuild for passes that call param. A param of g that an earlier pass made stays one param if f
// needs the same value before the loop reaches it.
func (c *context) rebuild(g *ir.Graph, f func(out *ir.Graph, n *ir.Node) *ir.Node) (*ir.Graph, error) {
	return g.Rebuild(func(out *ir.Graph, n *ir.Node, _ []*ir.Node, _ func(*ir.Node) *ir.Node) *ir.Node {
		if _, made := c.report.Folded[n.Name]; made && n.Is(op.ParamDef) {
			return c.index.find(out, n.Name) // nil if it is the first
		}
		return f(out, n)
	})
}

// param adds a param with a known value, or returns the param of g that has this value. Its name is a hash of its
// content, so methods that fold the same value share one weight. It is called within rebuild.
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
