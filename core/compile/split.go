package compile

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/pass"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/split"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/core/tensor"
)

// job is a method compiled for a target, before scheduling.
type job struct {
	method string
	target Target
	pieces []piece
	plan   *split.Plan // its segments are pieces; nil if the method is not divided
}

// piece is a graph that becomes one program.
type piece struct {
	target Target
	graph  *ir.Graph
	report *pass.Report
}

// splitAfter is the pass after which graphs are divided. It finds the ops that a target lacks, and leaves nodes that
// another target runs. After the division each segment goes through all passes for its own target.
const splitAfter = "legalize"

// prepare runs the passes. If the target lacks ops that fallbacks run, it divides the graph among them. dump, if not
// nil, is called with each graph and the target or segment that it is for.
func prepare(g *ir.Graph, t Target, fallbacks []Target, in *inStages, o pass.Options,
	dump func(of, phase string, g *ir.Graph)) (job, error) {
	showing := func(of string, shows func(phase string) bool) func(string, *ir.Graph) {
		if dump == nil {
			return nil
		}
		return func(phase string, g *ir.Graph) {
			if shows(phase) {
				dump(of, phase, g)
			}
		}
	}
	o.Dump = showing(t.Name, func(string) bool { return true })
	if in != nil {
		return divided(t, []Target{t}, in.plan, in.before, o, showing)
	}
	final, report, err := pass.Run(g, t.Takes, o)
	if err == nil && o.StopAfter == "" && len(fallbacks) > 0 { // another target may make the copies
		err = checkCopies(final, t)
	}
	if err == nil {
		return job{target: t, pieces: []piece{{t, final, report}}}, nil
	}
	targets := []Target{t}
	for _, f := range fallbacks {
		if f.Takes.Name != t.Takes.Name {
			targets = append(targets, f)
		}
	}
	if len(targets) == 1 || !errors.Is(err, code.Untaken) {
		return job{}, err
	}
	some := o
	some.StopAfter = splitAfter
	// the first run showed the earlier ones
	some.Dump = showing(t.Name, func(phase string) bool { return phase == splitAfter })
	some.Elsewhere = func(n *ir.Node) bool {
		return slices.ContainsFunc(targets[1:], func(f Target) bool { return pass.Runs(f.Takes, n) })
	}
	left, before, err := pass.Run(g, t.Takes, some)
	if err != nil {
		return job{}, err
	}
	plan, err := split.Make(left, split.Options{Targets: len(targets), Takes: func(k int, n *ir.Node) bool {
		if k == 0 && !pass.Stored(n) {
			how, _ := t.Takes.Takes(n)
			return how != target.No
		}
		return pass.Runs(targets[k].Takes, n)
	}, Why: func(n *ir.Node) string { return lacking(t.Takes, n) }})
	if err != nil {
		return job{}, diag.New(code.Untaken, g.Name, "cannot be divided among backends: %w", err).WithHint(
			"--gaps lists all that %s lacks", t.Name)
	}
	return divided(t, targets, plan, before, o, showing)
}

// divided runs the passes for each segment of a plan, for its own target. before is the report of the passes before the
// division.
func divided(t Target, targets []Target, plan *split.Plan, before *pass.Report, o pass.Options,
	showing func(of string, shows func(phase string) bool) func(string, *ir.Graph)) (job, error) {
	j := job{target: t, plan: plan}
	o.Shared = nil // it belongs to the undivided graph
	if o.Params != nil {
		o.Params = folded{o.Params, before.Folded}
	}
	for i, s := range plan.Segments {
		var err error
		x := piece{target: targets[s.Target]}
		of := fmt.Sprintf("%s, segment %d of %d on %s", t.Name, i+1, len(plan.Segments), x.target.Name)
		o.Dump = showing(of, func(phase string) bool { return phase != "in" })
		if x.graph, x.report, err = pass.Run(s.Graph, x.target.Takes, o); err != nil {
			return job{}, fmt.Errorf("segment %d, for %s: %w", i+1, x.target.Name, err)
		}
		maps.Copy(x.report.Folded, before.Folded)
		if i == 0 { // report the work before the division with the first segment
			x.report.Sites = append(before.Sites, x.report.Sites...)
			x.report.Rewritten = sum(before.Rewritten, x.report.Rewritten)
		}
		j.pieces = append(j.pieces, x)
	}
	return j, nil
}

// checkCopies returns an error if the target does not run the copies that scheduling adds for outputs.
func checkCopies(g *ir.Graph, t Target) error {
	g, err := op.CopyOutputs(g, nil)
	if err == nil {
		_, err = pass.Check(g, t.Takes)
	}
	return err
}

// lacking says why a target does not run a node, and with which rules it would.
func lacking(d *target.Description, n *ir.Node) string {
	why, need := pass.Why(d, n)
	if lines := newLines(d, need.Extend(d)); len(lines) > 0 {
		why += "; it would run with: " + strings.Join(lines, "; ")
	}
	return why
}

// sum returns the sums of two lists of counts, by op.
func sum(a, b []pass.OpCount) (out []pass.OpCount) {
	n := map[string]int{}
	for _, c := range append(slices.Clone(a), b...) {
		n[c.Op] += c.Count
	}
	for _, op := range slices.Sorted(maps.Keys(n)) {
		out = append(out, pass.OpCount{Op: op, Count: n[op]})
	}
	return out
}

// folded adds params that earlier passes computed to those of the model.
type folded struct {
	pass.Params
	values map[string]tensor.Tensor
}

// Param implements pass.Params.
func (f folded) Param(name string) (*tensor.Array, error) {
	if v, ok := f.values[name]; ok {
		return v.Array(), nil
	}
	return f.Params.Param(name)
}

// build schedules the pieces and completes their reports.
func (j job) build(o sched.Options, reports []SegmentReport) (*program.Split, error) {
	var out *program.Split
	for i, x := range j.pieces {
		o.Target = x.target.Name
		p, planned, err := sched.Build(x.graph, o)
		if err == nil { // scheduling may have added copies for outputs
			x.report.Reference, err = pass.Check(p.Graph, x.target.Takes)
		}
		if err != nil {
			return nil, err
		}
		p.Rewritten, p.Reference = counts(x.report.Rewritten), counts(x.report.Reference)
		reports[i].Plan = planned
		if j.plan == nil {
			return program.Whole(p), nil
		}
		if out == nil {
			out = &program.Split{Method: p.Method, Target: j.target.Name, Outputs: j.plan.Outputs}
		}
		s := j.plan.Segments[i]
		y := program.Segment{Program: p, Lacked: s.Lacked, Moved: s.Moved}
		for _, n := range p.Graph.Inputs() {
			y.Inputs = append(y.Inputs, s.Inputs[n.Name])
		}
		out.Segments = append(out.Segments, y)
	}
	return out, nil
}
