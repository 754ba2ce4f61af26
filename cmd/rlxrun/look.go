package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/ctxio"
	"github.com/rlx-go/rlx/internal/values"
	"github.com/rlx-go/rlx/task"
)

// look examines the values of one run, for --check-nan, --check-inf and --stats.
type look struct {
	s        *session
	follower *values.Follower
	finder   *values.Finder // nil unless NaN or infinities are looked for
}

// errEnough ends a run that has shown enough.
var errEnough = errors.New("enough bad values")

// look adds the observers that the flags need to a request. The state of the run must be set. It returns nil if the
// flags need no observers.
func (s *session) look(ctx context.Context, r *rlx.Request) (*look, error) {
	d := &s.debug
	if !d.checkNaN && !d.checkInf && !d.stats {
		return nil, nil
	}
	m, err := s.model.Method(r.Method)
	if err == nil {
		_, err = m.Sizes(r.Inputs) // reports bad inputs before the method is loaded
	}
	if err != nil && len(r.Feeds) == 0 {
		return nil, err
	}
	if err := s.load(ctx, m); err != nil {
		return nil, err
	}
	plan, err := s.plan(m.Name)
	if err != nil {
		return nil, err
	}
	x := &look{s: s}
	keep := func(p values.PlanStep) bool { return x.finder != nil || p.Node.Op.Nested }
	given, err := s.given(ctx, m, r, d.checkNaN || d.checkInf || slices.ContainsFunc(plan.Steps, keep))
	if err != nil {
		return nil, err
	}
	if d.checkNaN || d.checkInf {
		x.finder = values.NewFinder(plan, d.checkNaN, d.checkInf)
		for i, v := range m.Inputs {
			x.finder.Good(v.Name, given.Inputs[i])
		}
	}
	if err := s.aboutModel(s.memory.Fits("values of steps", plan.Memory(given.Sizes, keep))); err != nil {
		return nil, err
	}
	if d.stats {
		for i, v := range m.Inputs {
			s.stats.add(m.Name, 0, "input", v.Name, given.Inputs[i])
		}
	}
	x.follower, err = plan.Follow(given, keep, func(step *values.Step) error { return x.step(ctx, m.Name, step) })
	if err != nil {
		return nil, err
	}
	x.observe(r)
	return x, nil
}

// step takes the results of a step of a method.
func (x *look) step(ctx context.Context, method string, step *values.Step) error {
	if x.s.debug.stats {
		for k, n := range step.Node.Values() {
			x.s.stats.add(method, step.Index+1, step.Node.OpName(), n.Label(), step.Results[k])
		}
		if err := x.iterations(ctx, method, step); err != nil {
			return err
		}
	}
	if x.finder == nil {
		return nil
	}
	if err := ctxio.Run(ctx, "check", func() error { return x.finder.Step(step) }); err != nil {
		return err
	}
	if x.finder.Done() {
		return errEnough
	}
	return nil
}

// iterations adds the values that the graphs of a loop compute, over all iterations, by the reference. A loop with too
// much work for the reference has rows of the first iterations.
func (x *look) iterations(ctx context.Context, method string, step *values.Step) error {
	if !step.IsLoop() {
		return nil
	}
	return ctxio.Run(ctx, "reference", func() error {
		_, err := step.Iterations(func(v *values.Inner) error {
			loops := ""
			for _, at := range slices.Backward(v.At) {
				loops += " in " + at.Loop
			}
			for k, n := range v.Node.Values() {
				x.s.stats.add(method, step.Index+1, v.Node.OpName(), n.Label()+loops, v.Out[k].Tensor())
			}
			return ctx.Err()
		})
		if errors.Is(err, values.ErrWork) {
			return nil
		}
		return err
	})
}

// observe makes the request give all values of steps to the follower, in addition to those that it observes already.
func (x *look) observe(r *rlx.Request) {
	tell, chosen := r.Observe, r.Select
	r.Select = nil
	r.Observe = func(v rlx.StepValue, t rlx.Tensor) error {
		if tell != nil && (chosen == nil || chosen(v)) {
			if err := tell(v, t); err != nil {
				return err
			}
		}
		return x.follower.Observe(v.Step, v.Name, ofModel(t))
	}
}

// end returns the error of a run: its own, or that for the bad values that were found.
func (x *look) end(err error) error {
	if x == nil || x.finder == nil || err != nil && !errors.Is(err, errEnough) {
		return err
	}
	found := x.finder.Found
	if len(found) == 0 {
		return nil
	}
	if err := x.print(found); err != nil {
		return err
	}
	c, what := code.NaN, "holds a NaN"
	if found[0].NaN == 0 {
		c, what = code.Inf, "holds an infinity"
	}
	return diag.New(c, found[0].Label(), "its result %s: %v", what, &found[0])
}

// print lists the bad values: on stderr, or as JSON on stdout.
func (x *look) print(found []values.Bad) error {
	if x.s.env.JSON {
		return x.s.env.WriteJSON(map[string]any{"bad_values": found})
	}
	rows := [][]string{{"STEP", "OP", "NAME", "TYPE", "BAD", "FIRST", "AMONG", "CAUSE", "LAST GOOD VALUE"}}
	for _, b := range found {
		good := ""
		if b.Good != nil {
			good = fmt.Sprintf("%s, %.4g to %.4g", b.Good.Name, b.Good.Min, b.Good.Max)
		}
		rows = append(rows, []string{fmt.Sprint(b.Method, " ", b.Step), b.Op, b.Name, b.Type, b.Counts(),
			values.Brackets(b.At), values.Numbers(b.Around), b.Cause(), good})
	}
	return cli.Table(x.s.env.Stderr, rows)
}

// plan returns the plan that the runs of a method follow.
func (s *session) plan(method string) (*values.Plan, error) {
	if s.graphs == nil {
		v, err := format.Open(s.model.Path(), format.Policy{Weights: format.None})
		if err != nil {
			return nil, err
		}
		s.graphs = v
	}
	if s.graphs.Identity() != s.model.Facts().Identity {
		return nil, diag.New(code.ArtifactChanged, s.model.Path(), "was replaced while it was used")
	}
	p, ok := values.PlanOf(s.graphs, method, s.targetOf(method))
	if !ok {
		panic("BUG: no program of " + method)
	}
	return p, nil
}

// given returns the values that a run gets from outside, with its state if that is wanted.
func (s *session) given(ctx context.Context, m *rlx.Method, r *rlx.Request, state bool) (g values.Given, err error) {
	all := map[string]rlx.Tensor{}
	for _, v := range m.Inputs {
		t, ok := r.Inputs[v.Name]
		if f := r.Feeds[v.Name]; f != nil {
			if t, err = f.Read(ctx); err != nil {
				return g, err
			}
			ok = true
		}
		if ok {
			all[v.Name] = t
		}
	}
	if g.Sizes, err = m.Sizes(all); err != nil {
		return g, err
	}
	for _, v := range m.Inputs {
		t, ok := all[v.Name]
		if !ok {
			t = leftOut(s.model.Task(), m.Name, v, g.Sizes)
		}
		g.Inputs = append(g.Inputs, ofModel(t))
	}
	if r.State == nil || !state {
		return g, nil
	}
	g.States = map[string]tensor.Tensor{}
	for _, v := range s.model.States() {
		on, err := r.State.Tensor(v.Name)
		if err != nil {
			return g, err
		}
		t, err := on.Read(ctx)
		if err != nil {
			return g, err
		}
		g.States[v.Name] = ofModel(t)
	}
	return g, nil
}

// leftOut returns the value of an optional input that a run leaves out.
func leftOut(about task.Task, method string, v rlx.Value, sizes map[string]int64) rlx.Tensor {
	a := tensor.NewArray(dtype.DType(v.DType), v.ShapeAt(sizes)...)
	if t, ok := about.(task.Lenient); ok {
		value, _ := t.Default(method, v.Name)
		a.Fill(value)
	}
	return forModel(a.Tensor())
}

// statsRow describes a value over all runs of a method.
type statsRow struct {
	Method string        `json:"method"`
	Step   int           `json:"step"` // from 1; 0 for an input
	Op     string        `json:"op"`
	Name   string        `json:"name"`
	Type   string        `json:"type"` // in the last run
	Min    values.Number `json:"min"`  // of the finite elements, as Max and MeanAbs
	Max    values.Number `json:"max"`
	Mean   values.Number `json:"mean_abs"`
	Zeros  float64       `json:"zeros"` // share of the elements
	NaN    int           `json:"nan"`
	Inf    int           `json:"inf"`

	all values.Summary
}

// statsTable is the result of --stats.
type statsTable struct {
	rows []*statsRow
	at   map[string]*statsRow
}

// add adds a value of a run.
func (t *statsTable) add(method string, step int, op, name string, v tensor.Tensor) {
	sum, ok := values.Summarise(v)
	if !ok {
		return
	}
	key := fmt.Sprint(method, " ", step, " ", name)
	row := t.at[key]
	if row == nil {
		if t.at == nil {
			t.at = map[string]*statsRow{}
		}
		row = &statsRow{Method: method, Step: step, Op: op, Name: name, all: sum}
		t.at[key], t.rows = row, append(t.rows, row)
	} else {
		row.all.Merge(sum)
	}
	row.Type = v.DType.String() + values.Brackets(v.Shape)
	a := row.all
	row.Min, row.Max, row.Mean = values.Number(a.Min), values.Number(a.Max), values.Number(a.MeanAbs)
	row.NaN, row.Inf, row.Zeros = a.NaN, a.Inf, float64(a.Zeros)/max(1, float64(a.Len))
}

// table returns the rows as text.
func (t *statsTable) table() [][]string {
	out := [][]string{{"STEP", "OP", "NAME", "TYPE", "MIN", "MAX", "MEAN ABS", "ZEROS", "NAN", "INF"}}
	for _, r := range t.rows {
		step := r.Method
		if r.Step > 0 {
			step = fmt.Sprint(r.Method, " ", r.Step)
		}
		out = append(out, []string{step, r.Op, r.Name, r.Type, fmt.Sprintf("%.4g", float64(r.Min)),
			fmt.Sprintf("%.4g", float64(r.Max)), fmt.Sprintf("%.4g", float64(r.Mean)),
			strings.TrimSuffix(fmt.Sprintf("%.1f", 100*r.Zeros), ".0") + "%", fmt.Sprint(r.NaN), fmt.Sprint(r.Inf)})
	}
	return out
}
