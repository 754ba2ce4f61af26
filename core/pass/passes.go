package pass

import (
	"fmt"
	"maps"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// Pass is one step of the pipeline.
type Pass struct {
	Name  string
	Level ir.Level // runs for targets of this level and above
	run   func(c *context, g *ir.Graph) (*ir.Graph, error)
}

// passes is the pipeline. A pass may stand in it more than once.
var passes = []Pass{
	{"lower", ir.Core, lower},
	{"simplify", ir.Core, simplify},
	{"absorb-casts", ir.Core, absorbCasts},
	{"fold", ir.Core, fold},
	{"cse", ir.Core, cse},
	{"fuse-grid-attention", ir.Core, fuseGridAttention},
	{"absorb-windows", ir.Core, absorbWindows},
	{"fuse-attention", ir.Core, fuseAttention},
	{"absorb-transposes", ir.Core, absorbTransposes},
	{"simplify", ir.Core, simplify},
	{"split-linear", ir.Core, splitLinear},
	{"fold", ir.Core, fold},
	{"cse", ir.Core, cse},
	{"fuse-matmul", ir.Fused, fuseMatMul},
	{"fuse-norm", ir.Fused, fuseNorm},
	{"fuse-elementwise", ir.Fused, fuseElementwise},
	{"legalize-broadcast", ir.Core, legalizeBroadcast},
	{"materialize", ir.Core, materialize},
}

// common is how many passes, from the first, do the same for every target.
var common = slices.IndexFunc(passes, func(p Pass) bool { return p.Level > ir.Core })

// order states what the pipeline relies on: some pass of the first name stands before every pass of the second.
var order = []struct{ first, then, why string }{
	{"lower", "simplify", "rules are written for tensor ops"},
	{"absorb-casts", "fold", "a weight that a matmul widens itself must not be folded to f32"},
	{"fold", "fuse-grid-attention", "relative positions are gathered from tables at compile time; the pattern sees params"},
	{"cse", "fuse-grid-attention", "the query of the scores and of the positions must be one node"},
	{"fuse-grid-attention", "absorb-windows", "windows are absorbed by grid_attention"},
	{"fuse-grid-attention", "fuse-attention", "the pattern with positions is the larger one"},
	{"fuse-attention", "absorb-transposes", "attention has layouts of its own to absorb transposes into"},
	{"fuse-grid-attention", "split-linear", "packed q, k and v are what grid_attention takes"},
	{"absorb-windows", "fuse-matmul", "the linear layer moves before the windows; a fused one is not recognised"},
	{"absorb-transposes", "fuse-matmul", "fused_matmul takes over trans_a and trans_b"},
	{"fuse-matmul", "fuse-norm", "a residual is free in a matmul and not in a norm"},
	{"fuse-matmul", "fuse-elementwise", "bias and activation belong to the matmul, not to a region"},
	{"fuse-norm", "fuse-elementwise", "the sum belongs to the norm"},
	{"fuse-grid-attention", "legalize-broadcast", "relative positions are added to the scores by a broadcast, which the pattern sees"},
	{"fuse-elementwise", "legalize-broadcast", "a region takes its scalars as they are"},
	{"fuse-elementwise", "materialize", "scalars inside regions are literals, not params"},
}

func init() {
	if err := checkOrder(passes); err != nil {
		panic("BUG: pass: " + err.Error())
	}
}

// checkOrder holds a pipeline against order.
func checkOrder(list []Pass) error {
	at := func(name string) int { return slices.IndexFunc(list, func(p Pass) bool { return p.Name == name }) }
	for _, o := range order {
		a, b := at(o.first), at(o.then)
		if a < 0 || b < 0 || a > b {
			return fmt.Errorf("%s must run before %s: %s", o.first, o.then, o.why)
		}
	}
	return nil
}

// Names lists the passes in order, each once.
func Names() []string {
	var names []string
	for _, p := range passes {
		if !slices.Contains(names, p.Name) {
			names = append(names, p.Name)
		}
	}
	return names
}

// Run takes a graph through the pipeline for a target. The input graph is not changed.
func Run(g *ir.Graph, t Target, o Options) (*ir.Graph, *Report, error) {
	return run(g, t, o, passes)
}

// RunOne runs a single pass, by name: for tests and for looking at it.
func RunOne(g *ir.Graph, t Target, name string, o Options) (*ir.Graph, *Report, error) {
	i := slices.IndexFunc(passes, func(p Pass) bool { return p.Name == name })
	if i < 0 {
		return nil, nil, fmt.Errorf("pass %q is unknown; known are %v", name, Names())
	}
	return run(g, t, o, passes[i:i+1])
}

func run(g *ir.Graph, t Target, o Options, list []Pass) (*ir.Graph, *Report, error) {
	if err := g.Verify(); err != nil {
		return nil, nil, err
	}
	if o.StopAfter != "" && !slices.Contains(Names(), o.StopAfter) {
		return nil, nil, fmt.Errorf("pass %q is unknown; known are %v", o.StopAfter, Names())
	}
	r := &Report{Folded: map[string]tensor.Tensor{}, Passes: []PassStat{{"in", len(g.Nodes)}}}
	if o.Dump != nil {
		o.Dump("in", g)
	}
	in, done := g, 0
	if o.Shared != nil && o.Shared.graph == in {
		for _, st := range o.Shared.stages {
			g = st.graph
			if o.Dump != nil {
				o.Dump(st.pass, g)
			}
		}
		r, done = o.Shared.report.clone(), len(o.Shared.stages)
	}
	var stages []stage
	for i, p := range list {
		if i < done || t.Level < p.Level {
			continue
		}
		if o.Stop != nil {
			if err := o.Stop(); err != nil {
				return nil, nil, err
			}
		}
		c := &context{pass: p.Name, target: t, params: o.Params, report: r}
		next, err := p.run(c, g)
		if err == nil && o.Verify {
			err = next.Verify()
		}
		if err != nil {
			return nil, nil, fmt.Errorf("pass %s: %w", p.Name, err)
		}
		g = next
		r.Passes = append(r.Passes, PassStat{p.Name, len(g.Nodes)})
		if o.Dump != nil {
			o.Dump(p.Name, g)
		}
		if p.Name == o.StopAfter {
			break
		}
		stages = append(stages, stage{p.Name, g})
		if o.Shared != nil && i == common-1 {
			o.Shared.keep(in, stages, r)
		}
	}
	return g, r, dropUnusedFolded(g, r)
}

// dropUnusedFolded forgets values whose params did not survive.
func dropUnusedFolded(g *ir.Graph, r *Report) error {
	used := map[string]bool{}
	for _, p := range g.Params() {
		used[p.Name] = true
	}
	maps.DeleteFunc(r.Folded, func(name string, _ tensor.Tensor) bool { return !used[name] })
	return g.Verify()
}
