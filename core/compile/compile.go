// Package compile turns the graphs of a model into programs: it runs the passes for every target, schedules and places
// each result, and lists the weights that the programs need with their offsets. It is the only package that knows every
// stage; the runtime never imports it.
package compile

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/pass"
	"github.com/rlx-go/rlx/core/plan"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
)

// Options are what Compile needs besides the graphs.
type Options struct {
	Targets []Target
	// Fallbacks run the ops that a target lacks, the first of them that can. Without any, such an op is an error.
	Fallbacks []Target
	// Params returns values of params, to fold known values. It is called only for small tensors.
	Params pass.Params
	// Layout sets the offset of each weight, in the order given, and returns the size of them all. It belongs to the file
	// format.
	Layout func([]Weight) (size int64, err error)
	// Attach are weights that travel with the programs and that none reads, each with Data. They stand behind the others.
	Attach []Weight
	// Dump, where not nil, is shown every graph: phase is "in" (the graph as the model wrote it) or the name of a pass.
	Dump func(method, target, phase string, g *ir.Graph)
	// StopAfter is the name of the last pass to run; empty means all.
	StopAfter string
	// Activations is what products with packed weights do with theirs: op.ActivationsF32, or empty, or op.ActivationsQ8.
	Activations string
}

// Weight is a tensor that programs read.
type Weight struct {
	Name   string
	Type   ir.Type
	Offset int64  // in the weights space; set by Options.Layout
	Data   []byte // of attachments and of weights made while compiling; nil for the param of that name
}

// Size is the number of bytes.
func (w Weight) Size() int64 { return w.Type.Bytes(nil) }

// Report describes the result of one method on one target, by segment.
type Report struct {
	Method, Target string
	Segments       []SegmentReport // one, unless the target lacks ops
	Split          *program.Split  // nil with StopAfter
}

// SegmentReport describes one program.
type SegmentReport struct {
	Target string
	Passes *pass.Report
	Plan   plan.Report
}

// Result is what Compile makes.
type Result struct {
	Programs    []*program.Program // of methods in one piece, by method in the order given, then by target in the order given
	Splits      []*program.Split   // of those in several, likewise
	Weights     []Weight           // by offset, those of Options.Attach included
	WeightsSize int64
	Reports     []Report // by method, then by target
}

// Compile compiles every method for every target. With StopAfter the result has no programs. When ctx ends, Compile ends
// before the next pass or schedule with the cause.
func Compile(ctx context.Context, methods []*ir.Graph, o Options) (*Result, error) {
	var jobs []job
	stop := func() error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return nil
	}
	res := &Result{}
	weights := map[string]Weight{}
	for _, g := range methods {
		if err := g.Verify(); err != nil {
			return nil, fmt.Errorf("%s: %w", g.Name, err)
		}
		var shared pass.Shared
		for _, t := range o.Targets {
			po := pass.Options{Params: o.Params, StopAfter: o.StopAfter, Activations: o.Activations, Shared: &shared, Stop: stop}
			var dump func(of, phase string, at *ir.Graph)
			if o.Dump != nil {
				dump = func(of, phase string, at *ir.Graph) { o.Dump(g.Name, of, phase, at) }
			}
			j, err := prepare(g, t, o.Fallbacks, po, dump)
			if err != nil {
				return nil, fmt.Errorf("%s for %s: %w", g.Name, t.Name, err)
			}
			r := Report{Method: g.Name, Target: t.Name}
			for _, x := range j.pieces {
				if err := collect(x.graph, x.report.Folded, weights); err != nil {
					return nil, err
				}
				r.Segments = append(r.Segments, SegmentReport{Target: x.target.Name, Passes: x.report})
			}
			res.Reports, jobs = append(res.Reports, r), append(jobs, j)
		}
	}
	if o.StopAfter != "" {
		return res, nil
	}
	for _, w := range weights {
		res.Weights = append(res.Weights, w)
	}
	slices.SortFunc(res.Weights, func(a, b Weight) int { return cmp.Compare(a.Name, b.Name) })
	res.Weights = append(res.Weights, o.Attach...)
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
	so := sched.Options{State: states.Find, Weights: func(name string) (int64, bool) { off, ok := offsets[name]; return off, ok }}
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

func counts(list []pass.OpCount) (out []program.OpCount) {
	for _, c := range list {
		out = append(out, program.OpCount(c))
	}
	return out
}

// collect adds the graph's params to weights. Params that passes made are named after their content, so that methods and
// targets that fold the same thing share it.
func collect(g *ir.Graph, folded map[string]tensor.Tensor, weights map[string]Weight) error {
	for _, p := range g.Params() {
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
