package compile

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/pass"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/target"
)

// TargetGaps lists what a target lacks to run some methods.
type TargetGaps struct {
	Target string
	Types  []TypeGap // in the order of a description
	Ops    []OpGap   // by name
	// Lines of a description with which the target runs all methods: "types", "limit" and "run" lines. Other sets may
	// do as well.
	Lines []string
	// Extended is the target's description with these lines.
	Extended *target.Description
}

// Empty reports whether the target lacks nothing.
func (g TargetGaps) Empty() bool { return len(g.Types) == 0 && len(g.Ops) == 0 && len(g.Lines) == 0 }

// TypeGap is an element type that the target lacks.
type TypeGap struct {
	Type                            dtype.DType
	Inputs, Weights, States, Values int // how many of each have this type; Values are results of ops
	Methods                         []string
}

// OpGap is an op that the target does not run for some nodes, in any form.
type OpGap struct {
	Op      string
	Nodes   map[string]int // by method
	Uses    []Use
	Rule    target.Rule // would accept all of these nodes
	Others  []string    // built-in targets that run all of these nodes
	Rewrite []Rewrite   // what the compiler tried for every node
}

// Use is a group of nodes that the target does not run. They have the same element types, and no rule fits them for the
// same reason.
type Use struct {
	Operands, Results string // element types: "f32, f16"
	Nodes             int
	Example, At       string // the types of one of them, and where it is in the model
	Why               string // why no rule fits
}

// Rewrite is a way to run nodes without a rule for their op.
type Rewrite struct {
	Name  string        // such as "by its expansion"
	Types []dtype.DType // that the target would have to have
	Rules []target.Rule // likewise
}

// same reports whether two rewrites need the same.
func (r Rewrite) same(q Rewrite) bool {
	equal := func(a, b target.Rule) bool { return a.String() == b.String() }
	return slices.Equal(r.Types, q.Types) && slices.EqualFunc(r.Rules, q.Rules, equal)
}

// Gaps lists, for each target of o, all that the target lacks to run the methods. It uses the Targets, Params and
// Activations of o.
func Gaps(ctx context.Context, methods []*ir.Graph, o Options) (out []TargetGaps, err error) {
	f := finder{ctx: ctx, methods: methods, o: o, shared: make([]pass.Shared, len(methods))}
	for _, g := range methods {
		if err := g.Verify(); err != nil {
			return nil, fmt.Errorf("%s: %w", g.Name, err)
		}
	}
	for _, t := range o.Targets {
		g, err := f.target(t)
		if err != nil {
			return nil, err
		}
		out = append(out, g)
	}
	return out, nil
}

type finder struct {
	ctx     context.Context
	methods []*ir.Graph
	o       Options
	shared  []pass.Shared // by method
}

// lack is a node that a target does not run, and the number of nodes like it.
type lack struct {
	node   *ir.Node
	method string
	nodes  int
}

// programs returns the graph of each method as a target would run it. Nodes that the target does not run stay as they
// are.
func (f *finder) programs(d *target.Description) (out []*ir.Graph, err error) {
	for i, g := range f.methods {
		o := pass.Options{Params: f.o.Params, Activations: f.o.Activations, Custom: f.o.Custom, Shared: &f.shared[i],
			Keep: true, StopAfter: splitAfter, Stop: func() error { return context.Cause(f.ctx) }}
		last, _, err := pass.Run(g, d, o)
		if err != nil {
			return nil, fmt.Errorf("%s for %s: %w", g.Name, d.Name, err)
		}
		if last, err = op.CopyOutputs(last, pass.Stored); err != nil {
			return nil, err
		}
		at := int64(0) // scheduling adds copies, too
		next := func(string) (int64, bool) { at += program.Align; return at, true }
		p, _, err := sched.Build(last, sched.Options{Target: d.Name, Weights: next})
		if err != nil {
			return nil, fmt.Errorf("%s for %s: %w", g.Name, d.Name, err)
		}
		out = append(out, p.Graph)
	}
	return out, nil
}

// lacks lists the nodes that a target does not run, one for each kind.
func (f *finder) lacks(d *target.Description) (out []*lack, graphs []*ir.Graph, err error) {
	if graphs, err = f.programs(d); err != nil {
		return nil, nil, err
	}
	for i, g := range graphs {
		seen := map[string]*lack{}
		for _, n := range pass.Lacks(d, g) {
			k := pass.Signature(n)
			if seen[k] == nil {
				seen[k] = &lack{node: n, method: f.methods[i].Name}
				out = append(out, seen[k])
			}
			seen[k].nodes++
		}
	}
	return out, graphs, nil
}

func (f *finder) target(t Target) (gaps TargetGaps, err error) {
	gaps.Target = t.Name
	// Types and limits come first: a target without f16 lacks every op on f16, most of which it would run if it had the
	// type.
	d := t.Takes
	var found []*lack
	var graphs []*ir.Graph
	for {
		if found, graphs, err = f.lacks(d); err != nil {
			return gaps, err
		}
		var need pass.Need
		for _, l := range found {
			e := pass.NewExplainer(d).Own(l.node)
			need.Types = append(need.Types, e.Types...)
			need.Rank, need.Operands = max(need.Rank, e.Rank), max(need.Operands, e.Operands)
		}
		next := need.Extend(d)
		if next.Equal(d) {
			break
		}
		d = next
	}
	gaps.Types = typeGaps(t.Takes, f.methods, graphs)
	gaps.Ops = opGaps(d, found)
	for len(found) > 0 {
		next := extend(d, found)
		if next.Equal(d) {
			return gaps, fmt.Errorf("BUG: gaps of %s: no rule helps %s", t.Name, found[0].node.OpName())
		}
		d = next
		if found, _, err = f.lacks(d); err != nil {
			return gaps, err
		}
	}
	gaps.Extended, gaps.Lines = d, newLines(t.Takes, d)
	return gaps, nil
}

// extend adds few rules to a description so that the target runs the nodes. It adds rules op by op, because the rules
// for one op may let the target run another op, too. Ops that no rewrite expresses come first, then those whose
// rewrites contain no other op of the list.
func extend(d *target.Description, found []*lack) *target.Description {
	rest := map[string][]*ir.Node{}
	for _, l := range found {
		rest[l.node.Op.Name] = append(rest[l.node.Op.Name], l.node)
	}
	for len(rest) > 0 {
		e := pass.NewExplainer(d)
		var best string
		least := -1
		for _, name := range slices.Sorted(maps.Keys(rest)) {
			rewrites, others := 0, map[string]bool{}
			for _, n := range rest[name] {
				for _, w := range e.Ways(n) {
					rewrites = 1
					for _, x := range w.Nodes {
						others[x.Op.Name] = others[x.Op.Name] || x.Op.Name != name && rest[x.Op.Name] != nil
					}
				}
			}
			maps.DeleteFunc(others, func(_ string, in bool) bool { return !in })
			if k := rewrites + len(others); least < 0 || k < least {
				best, least = name, k
			}
		}
		var need pass.Need
		for _, n := range rest[best] {
			need.Add(e.Fewest(n))
		}
		d = need.Extend(d)
		delete(rest, best)
	}
	return d
}

// newLines lists the lines of a description that another one lacks.
func newLines(old, d *target.Description) (out []string) {
	have := strings.Split(old.String(), "\n")
	for line := range strings.Lines(d.String()) {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(have, line) {
			out = append(out, line)
		}
	}
	return out
}

func typeGaps(d *target.Description, methods, graphs []*ir.Graph) (out []TypeGap) {
	by := map[dtype.DType]*TypeGap{}
	weights := map[string]bool{}
	for i, g := range graphs {
		for _, n := range g.Nodes {
			for _, t := range n.ResultTypes() {
				if d.HasType(t.DType) || n.Op == ir.ResultDef {
					continue
				}
				if by[t.DType] == nil {
					by[t.DType] = &TypeGap{Type: t.DType}
				}
				x := by[t.DType]
				switch {
				case n.Is(op.ParamDef) && weights[n.Name]:
				case n.Is(op.ParamDef):
					weights[n.Name] = true
					x.Weights++
				case n.Is(op.InputDef):
					x.Inputs++
				case n.Op == ir.StateDef:
					x.States++
				default:
					x.Values++
				}
				if !slices.Contains(x.Methods, methods[i].Name) {
					x.Methods = append(x.Methods, methods[i].Name)
				}
			}
		}
	}
	for _, t := range dtype.Known() {
		if by[t] != nil {
			out = append(out, *by[t])
		}
	}
	return out
}

func opGaps(d *target.Description, found []*lack) (out []OpGap) {
	by := map[string][]*lack{}
	for _, l := range found {
		by[l.node.Op.Name] = append(by[l.node.Op.Name], l)
	}
	e := pass.NewExplainer(d)
	for _, name := range slices.Sorted(maps.Keys(by)) {
		list := by[name]
		g := OpGap{Op: name, Nodes: map[string]int{}}
		var nodes []*ir.Node
		var uses []*Use
		ways := map[string]*pass.Need{}
		count := map[string]int{}
		var order []string
		for _, l := range list {
			n := l.node
			nodes = append(nodes, n)
			g.Nodes[l.method] += l.nodes
			uses = addUse(uses, d, l)
			for _, w := range e.Ways(n) {
				if ways[w.Name] == nil {
					ways[w.Name] = &pass.Need{}
					order = append(order, w.Name)
				}
				ways[w.Name].Add(w.Need)
				count[w.Name]++
			}
		}
		for _, u := range uses {
			g.Uses = append(g.Uses, *u)
		}
		g.Rule = target.RuleFor(nodes)
		for _, name := range order {
			r := Rewrite{name, ways[name].Types, ways[name].Rules()}
			if count[name] == len(list) && !slices.ContainsFunc(g.Rewrite, r.same) {
				g.Rewrite = append(g.Rewrite, r)
			}
		}
		for _, b := range target.Builtin() {
			if b.Name != d.Name && !slices.ContainsFunc(nodes, func(n *ir.Node) bool { return !pass.Runs(b, n) }) {
				g.Others = append(g.Others, b.Name)
			}
		}
		out = append(out, g)
	}
	return out
}

// addUse counts nodes of one kind.
func addUse(uses []*Use, d *target.Description, l *lack) []*Use {
	names := func(types []ir.Type) string {
		var out []string
		for _, t := range types {
			if t.Present() {
				out = append(out, t.DType.String())
			}
		}
		return strings.Join(out, ", ")
	}
	_, why := d.Takes(l.node)
	u := &Use{Operands: names(l.node.InTypes()), Results: names(l.node.ResultTypes()), Why: why,
		Example: pass.Types(l.node), At: pass.Origin(l.node)}
	for _, old := range uses {
		if old.Operands == u.Operands && old.Results == u.Results && (old.Why == u.Why || old.Example == u.Example) {
			old.Nodes += l.nodes
			return uses
		}
	}
	u.Nodes = l.nodes
	return append(uses, u)
}
