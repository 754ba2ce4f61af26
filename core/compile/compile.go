// Package compile turns the graphs of a model into programs. It runs the passes for every target, schedules each result
// and places its values, and lists the weights that the programs need. It is the only package that imports every stage
// of the compiler; the runtime never imports it.
package compile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/custom"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/pass"
	"github.com/rlx-go/rlx/core/plan"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/core/tensor"
)

// Options control Compile.
type Options struct {
	Targets []Target
	// LeaveOut leaves out a target that cannot run a method, if another one can run all. Otherwise that is an error.
	LeaveOut bool
	// Fallbacks are targets that may run the ops that a target lacks. Without any, an op that a target lacks is an
	// error.
	Fallbacks []Target
	// Stages divides each method into that many segments, for as many devices of one backend; see split.Stages. 0 and 1
	// leave methods whole.
	Stages int
	// Params returns the values of params, for constant folding. It is called only for small tensors.
	Params pass.Params
	// Mutable reports whether a session may replace a param, so that no constant may be computed from its values. Nil
	// means none: then Weight.Fixed tells which params the compiler computed constants from.
	Mutable func(name string) bool
	// Layout sets the offset of each weight, in the given order, and returns the total size. The file format supplies
	// it.
	Layout func([]Weight) (size int64, err error)
	// Attach lists data that is stored after the weights and that no program reads. Each needs Data.
	Attach []Weight
	// Dump, if not nil, is called with every graph. phase is "in" for the graph that the model built, or the name of a
	// pass.
	Dump func(method, target, phase string, g *ir.Graph)
	// StopAfter is the name of the last pass to run; empty means all.
	StopAfter string
	// Activations says how products with packed weights read their activations: op.ActivationsF32 (the default) or
	// op.ActivationsQ8.
	Activations string
	Unroll      int // see pass.Options
	// Custom has the definitions of ops whose patterns are looked for in the methods; may be nil.
	Custom *custom.Library
	// Native, if not nil, reports whether a target must have a kernel for a node of a method, because the node's expansion
	// would be far too slow. A target without one cannot run the method.
	Native func(n *ir.Node) bool
	// Memory, if not nil, is asked before constants are computed; see pass.Memory.
	Memory pass.Memory
}

// Weight is a tensor that programs read.
type Weight struct {
	Name   string
	Type   ir.Type
	Offset int64  // in the weights space, in bytes; set by Options.Layout
	Data   []byte // of attachments and of weights that passes computed; nil means the model's param of that name
	// Fixed is set if a session cannot replace the weight. That is so if it is not a param of the model, or if programs
	// have constants that were computed from its values.
	Fixed bool
}

// Size returns the size in bytes.
func (w Weight) Size() int64 { return w.Type.Bytes(nil) }

// Report describes the result of compiling one method for one target.
type Report struct {
	Method, Target string
	Segments       []SegmentReport // one per segment; one in all unless the target lacks ops
	Split          *program.Split  // nil if StopAfter is set
}

// SegmentReport describes the program of one segment.
type SegmentReport struct {
	Target string
	Passes *pass.Report
	Plan   plan.Report
}

// Result is the result of Compile.
type Result struct {
	Programs    []*program.Program // the undivided programs, by method and then by target, in the given order
	Splits      []*program.Split   // the divided ones, in the same order
	Weights     []Weight           // by offset, including those of Options.Attach
	WeightsSize int64
	Reports     []Report // by method, then by target
	LeftOut     []LeftOut
}

// LeftOut is a target for which nothing was compiled; see Options.LeaveOut.
type LeftOut struct {
	Target string
	Err    error // what it lacks
}

// Compile compiles every method for every target. If StopAfter is set, the result has no programs. If ctx ends, Compile
// returns its cause before it starts the next pass or schedule.
func Compile(ctx context.Context, methods []*ir.Graph, o Options) (*Result, error) {
	stop := func() error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return nil
	}
	res := &Result{}
	weights := map[string]Weight{}
	params, read := o.Params, map[string]bool{}
	if params != nil {
		params = reading{params, read}
	}
	shared := make([]pass.Shared, len(methods))
	for _, g := range methods {
		if err := g.Verify(); err != nil {
			return nil, fmt.Errorf("%s: %w", g.Name, err)
		}
	}
	options := func(i int) pass.Options {
		return pass.Options{Params: params, Mutable: o.Mutable, StopAfter: o.StopAfter, Activations: o.Activations,
			Custom: o.Custom, Shared: &shared[i], Unroll: o.Unroll, Stop: stop, Memory: o.Memory}
	}
	jobs, left, err := prepareAll(methods, o, options)
	if err != nil {
		return nil, err
	}
	res.LeftOut = left
	for _, j := range jobs {
		r := Report{Method: j.method, Target: j.target.Name}
		for _, x := range j.pieces {
			if err := collect(x.graph, x.report.Folded, weights); err != nil {
				return nil, err
			}
			r.Segments = append(r.Segments, SegmentReport{Target: x.target.Name, Passes: x.report})
		}
		res.Reports = append(res.Reports, r)
	}
	if o.StopAfter != "" {
		return res, nil
	}
	for _, w := range weights {
		w.Fixed = w.Data != nil || read[w.Name]
		res.Weights = append(res.Weights, w)
	}
	slices.SortFunc(res.Weights, func(a, b Weight) int { return cmp.Compare(a.Name, b.Name) })
	for _, w := range o.Attach {
		w.Fixed = true
		res.Weights = append(res.Weights, w)
	}
	size, err := o.Layout(res.Weights)
	if err != nil {
		return nil, err
	}
	res.WeightsSize = size
	offsets := make(map[string]int64, len(res.Weights))
	for _, w := range res.Weights {
		offsets[w.Name] = w.Offset
	}
	var graphs []*ir.Graph
	for _, j := range jobs {
		for _, x := range j.pieces {
			graphs = append(graphs, x.graph)
		}
	}
	states, err := sched.StateLayout(graphs...)
	if err != nil {
		return nil, err
	}
	so := sched.Options{State: states.Find, Weights: func(name string) (int64, bool) {
		off, ok := offsets[name]
		return off, ok
	}}
	for i, j := range jobs {
		if err := stop(); err != nil {
			return nil, err
		}
		r := &res.Reports[i]
		if r.Split, err = j.build(so, r.Segments); err != nil {
			return nil, fmt.Errorf("%s for %s: %w", r.Method, r.Target, err)
		}
		if j.plan == nil {
			res.Programs = append(res.Programs, r.Split.Segments[0].Program)
		} else {
			res.Splits = append(res.Splits, r.Split)
		}
	}
	return res, nil
}

// prepareAll prepares every method for every target, by method and then by target. left has the targets that
// Options.LeaveOut leaves out.
func prepareAll(methods []*ir.Graph, o Options, options func(method int) pass.Options) (
	jobs []job, left []LeftOut, err error) {
	out := map[string]bool{}
	// leave returns nil if err only means that a target is left out. If no target can run all, what the first one lacks
	// says why.
	leave := func(t Target, err error) error {
		lacks := errors.Is(err, code.Untaken) || errors.Is(err, code.Unsupported)
		switch {
		case !o.LeaveOut || !lacks:
			return err
		case len(left) == len(o.Targets)-1:
			return append(left, LeftOut{t.Name, err})[0].Err
		}
		out[t.Name], left = true, append(left, LeftOut{t.Name, err})
		return nil
	}
	divisions := make([][]*inStages, len(o.Targets))
	for k, t := range o.Targets {
		if divisions[k], err = stages(methods, t, o.Stages, options); err != nil {
			if err := leave(t, err); err != nil {
				return nil, nil, err
			}
		}
	}
	for i, g := range methods {
		for k, t := range o.Targets {
			if out[t.Name] {
				continue
			}
			var dump func(of, phase string, at *ir.Graph)
			if o.Dump != nil {
				dump = func(of, phase string, at *ir.Graph) { o.Dump(g.Name, of, phase, at) }
			}
			err := o.checkNative(g, t)
			var j job
			if err == nil {
				j, err = prepare(g, t, o.Fallbacks, divisions[k][i], options(i), dump)
			}
			if err != nil {
				if err := leave(t, fmt.Errorf("%s for %s: %w", g.Name, t.Name, err)); err != nil {
					return nil, nil, err
				}
				continue
			}
			j.method = g.Name
			jobs = append(jobs, j)
		}
	}
	return slices.DeleteFunc(jobs, func(j job) bool { return out[j.target.Name] }), left, nil
}

// checkNative checks that a target has a kernel for each node of a method that must have one.
func (o Options) checkNative(g *ir.Graph, t Target) error {
	for _, n := range g.Nodes {
		if o.Native == nil || !o.Native(n) {
			continue
		}
		if how, why := t.Takes.Takes(n); how != target.Native {
			return diag.New(code.Untaken, n.OpName(), "target %s has no kernel for it on %s: %s", t.Name, pass.Types(n), why)
		}
	}
	return nil
}

// reading notes the params whose values the compiler reads, because it computes constants from them.
type reading struct {
	pass.Params
	names map[string]bool
}

// Param implements pass.Params.
func (r reading) Param(name string) (*tensor.Array, error) {
	r.names[name] = true
	return r.Params.Param(name)
}

func counts(list []pass.OpCount) (out []program.OpCount) {
	for _, c := range list {
		out = append(out, program.OpCount(c))
	}
	return out
}

// collect adds the params of a graph to weights. Params that passes made are named after their content, so methods and
// targets that fold the same value share it.
func collect(g *ir.Graph, folded map[string]tensor.Tensor, weights map[string]Weight) error {
	for _, p := range g.AllParams() {
		w := Weight{Name: p.Name, Type: p.Type}
		if v, ok := folded[p.Name]; ok {
			w.Data = v.Data
		}
		if old, ok := weights[w.Name]; ok && !old.Type.Equal(w.Type) {
			return fmt.Errorf("BUG: weight %s is %v and %v", w.Name, old.Type, w.Type)
		}
		weights[w.Name] = w
	}
	return nil
}
