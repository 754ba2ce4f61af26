package pass

import (
	"fmt"
	"maps"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/core/tensor"
)

// Pass is one step of the pipeline.
type Pass struct {
	Name string
	// Asks is set if the pass makes only nodes that the target runs no worse than the nodes they replace. All passes
	// before the first one with Asks do the same for every target.
	Asks bool
	run  func(c *context, g *ir.Graph) (*ir.Graph, error)
}

// passes is the pipeline. A pass may occur in it more than once.
var passes = []Pass{
	{"lower", false, lower},
	{"simplify", false, simplify},
	{"find-quantized", false, findQuantized},
	{"absorb-casts", false, absorbCasts},
	{"fold", false, fold},
	{"cse", false, cse},
	{"hoist", false, hoist},
	{"loops", true, loops},
	{"custom", true, customOps},
	{"find-ops", true, findOps},
	{"fuse-grid-attention", true, fuseGridAttention},
	{"absorb-windows", true, absorbWindows},
	{"fuse-attention", true, fuseAttention},
	{"absorb-transposes", true, absorbTransposes},
	{"absorb-parts", true, absorbParts},
	{"merge-convs", false, mergeConvs},
	{"simplify", false, simplify},
	{"split-linear", true, splitLinear},
	{"fold", false, fold},
	{"cse", false, cse},
	{"channels-last", true, channelsLast},
	{"round-activations", true, roundActivations},
	{"fuse-matmul", true, fuseMatMul},
	{"fuse-conv", true, fuseConv},
	{"fuse-norm", true, fuseNorm},
	{"legalize", true, legalize},
	{"simplify", true, simplify},
	{"fold", true, fold},
	{"cse", true, cse},
	{"fuse-elementwise", true, fuseElementwise},
	{"materialize", true, materialize},
}

// common is the number of passes at the start that do the same for every target.
var common = slices.IndexFunc(passes, func(p Pass) bool { return p.Asks })

// order lists the constraints on the pipeline: passes named first must come before all passes named then.
var order = []struct{ first, then, why string }{
	{"lower", "simplify", "rules are written for tensor ops"},
	{"lower", "find-quantized", "a block may be the product"},
	{"find-quantized", "fold", "weights that are integers must not be folded to f32"},
	{"cse", "merge-convs", "branches read the same image"},
	{"find-quantized", "merge-convs", "a product of integers has no weights to add"},
	{"merge-convs", "channels-last", "weights that are added at compile time need no convolutions of their own"},
	{"absorb-casts", "fold", "a weight that a matmul widens itself must not be folded to f32"},
	{"cse", "loops", "loops with the same operands are merged"},
	{"simplify", "hoist", "nodes without effect need not move"},
	{"hoist", "loops", "the graphs of a loop that stays are compiled without the nodes that move"},
	{"loops", "custom", "the ops of a loop that is unrolled are claimed and expanded like others"},
	{"cse", "custom", "patterns assume that equal values are one node"},
	{"custom", "fuse-grid-attention",
		"patterns of claimed ops need their nodes unfused, and expansions of other custom ops are fused"},
	{"custom", "find-ops", "patterns of claimed ops need their nodes as they are"},
	{"find-ops", "fuse-attention", "queries that rotate are not a product with a factor"},
	{"find-ops", "absorb-transposes", "a rotation has layouts to absorb transposes into"},
	{"find-ops", "fuse-matmul", "an activation is fused by its name"},
	{"find-ops", "fuse-norm", "a norm is fused by its name"},
	{"fold", "fuse-grid-attention",
		"relative positions are gathered from tables at compile time; the pattern sees params"},
	{"cse", "fuse-grid-attention", "the query of the scores and of the positions must be one node"},
	{"fuse-grid-attention", "absorb-windows", "windows are absorbed by grid_attention"},
	{"fuse-grid-attention", "fuse-attention", "the pattern with positions is the larger one"},
	{"fuse-attention", "absorb-transposes", "attention has layouts of its own to absorb transposes into"},
	{"absorb-transposes", "absorb-parts", "heads of packed rows lie as in the layouts bse and bshd"},
	{"absorb-parts", "split-linear", "a product that is read in place stays one product"},
	{"fuse-grid-attention", "split-linear", "grid_attention takes packed q, k and v"},
	{"absorb-windows", "fuse-matmul", "the linear layer moves before the windows; a fused one is not recognised"},
	{"absorb-transposes", "fuse-matmul", "fused_matmul takes over trans_a and trans_b"},
	{"find-ops", "channels-last", "activations and norms are one node, which is turned as a whole"},
	{"absorb-transposes", "channels-last", "attention absorbs transposes that would be merged with others"},
	{"channels-last", "fuse-matmul", "a sum is an operand of a product only in the product's layout"},
	{"channels-last", "fuse-conv", "fused ops need not be turned"},
	{"lower", "round-activations", "blocks make the products"},
	{"fuse-matmul", "fuse-norm", "a residual is free in a matmul and not in a norm"},
	{"fuse-matmul", "fuse-elementwise", "bias and activation belong to the matmul, not to a region"},
	{"find-ops", "fuse-conv", "an activation is fused by its name"},
	{"fuse-conv", "fuse-norm", "a residual is free in a convolution and not in a norm"},
	{"fuse-conv", "fuse-elementwise", "bias and activation belong to the convolution, not to a region"},
	{"fuse-norm", "fuse-elementwise", "the sum belongs to the norm"},
	{"fuse-norm", "legalize", "fused ops need no expansion of their parts"},
	{"legalize", "fuse-elementwise", "expansions are chains of elementwise ops"},
	{"fuse-elementwise", "materialize", "scalars inside regions are literals, not params"},
}

func init() {
	if err := checkOrder(passes); err != nil {
		panic("BUG: pass: " + err.Error())
	}
}

// checkOrder returns an error if a list of passes violates order.
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

// Names returns the distinct names of the passes, in order.
func Names() []string {
	var names []string
	for _, p := range passes {
		if !slices.Contains(names, p.Name) {
			names = append(names, p.Name)
		}
	}
	return names
}

// Run runs the pipeline on a graph for a target. The input graph is not changed.
func Run(g *ir.Graph, t *target.Description, o Options) (*ir.Graph, *Report, error) {
	return run(g, t, o, passes)
}

// RunOne runs a single pass. It is for tests and experiments.
func RunOne(g *ir.Graph, t *target.Description, name string, o Options) (*ir.Graph, *Report, error) {
	i := slices.IndexFunc(passes, func(p Pass) bool { return p.Name == name })
	if i < 0 {
		return nil, nil, fmt.Errorf("pass %q is unknown; known are %v", name, Names())
	}
	return run(g, t, o, passes[i:i+1])
}

func run(g *ir.Graph, t *target.Description, o Options, list []Pass) (*ir.Graph, *Report, error) {
	if err := g.Verify(); err != nil {
		return nil, nil, err
	}
	if o.StopAfter != "" && !slices.Contains(Names(), o.StopAfter) {
		return nil, nil, fmt.Errorf("pass %q is unknown; known are %v", o.StopAfter, Names())
	}
	r := &Report{Folded: map[string]tensor.Tensor{}, bodies: map[string]string{},
		Passes: []PassStat{{"in", len(g.Nodes)}}}
	if o.within != nil {
		r.Folded, r.bodies = maps.Clone(o.within.Folded), o.within.bodies
	}
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
		if i < done {
			continue
		}
		if o.Stop != nil {
			if err := o.Stop(); err != nil {
				return nil, nil, err
			}
		}
		c := &context{pass: p.Name, target: t, asks: p.Asks, params: o.Params, mutable: o.Mutable, report: r,
			memory: o.Memory, stop: o.Stop, activations: o.Activations, elsewhere: o.Elsewhere, keep: o.Keep,
			custom: o.Custom, unrollNodes: op.UnrollNodes}
		c.nested = func(b *ir.Graph) (*ir.Graph, *Report, error) {
			return run(b, t, Options{Params: o.Params, Mutable: o.Mutable, Verify: o.Verify, Stop: o.Stop,
				Memory: o.Memory, Activations: o.Activations, Custom: o.Custom, Unroll: o.Unroll, within: r}, passes)
		}
		if o.Unroll != 0 {
			c.unrollNodes = int64(max(0, o.Unroll))
		}
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
	if len(list) == len(passes) && o.StopAfter == "" {
		var err error
		if r.Reference, err = Check(g, t); err != nil {
			return nil, nil, err
		}
	}
	return g, r, dropUnusedFolded(g, r)
}

// Check checks that the target runs every node of a final graph, and counts the ops that run by reference.
func Check(g *ir.Graph, t *target.Description) (reference []OpCount, err error) {
	for _, n := range g.Nodes {
		switch how, why := t.Takes(n); how {
		case target.No:
			return nil, untaken(t, n, why)
		case target.Reference:
			reference = count(reference, n.OpName())
		}
		for _, b := range n.Programs() {
			inner, err := Check(b, t)
			if err != nil {
				return nil, err
			}
			reference = addCounts(reference, inner)
		}
	}
	return reference, nil
}

// dropUnusedFolded drops the values of params that are no longer in the graph.
func dropUnusedFolded(g *ir.Graph, r *Report) error {
	used := map[string]bool{}
	for _, p := range g.AllParams() {
		used[p.Name] = true
	}
	maps.DeleteFunc(r.Folded, func(name string, _ tensor.Tensor) bool { return !used[name] })
	return g.Verify()
}
