package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/ctxio"
	"github.com/rlx-go/rlx/internal/values"
)

// diffFlags are the flags of `rlxrun diff`.
type diffFlags struct {
	against   string // a backend, or reference
	device    string
	precision string
	tolerance float64
	strict    bool // whether tolerance was given
	bisect    bool
	minimize  bool
	output    string
	plot      string
	run       runFlags
}

// theReference is the value of --against for the definitions of the ops.
const theReference = "reference"

func diffCommand() *cli.Command {
	return &cli.Command{
		Name: "diff", Args: "FILE [OTHER] [flags]", Short: "compare the values of two runs, to find where they differ",
		Long: `Runs a method twice on the same inputs, and compares the values of all steps by name: the run of FILE that -b and the flags with it select, and one
on another backend, in another precision, of another artifact, or by the reference definitions of the ops. Prints the first value that differs by more than
its op and --tolerance allow, and how the error grows. Fails if a value differs. Inputs that -i does not give are generated.`,
		Examples: []cli.Example{
			{About: "where a GPU and the processor differ",
				Line: "rlxrun diff sam.rlx -b wgpu --against cpu --method encode -i image=@image.npy"},
			{About: "the first step of a backend that is wrong by itself, as a file for a bug report",
				Line: "rlxrun diff sam.rlx -b npu --method decode --minimize -o case.rlx"},
			{About: "what a lower precision costs, with a picture",
				Line: "rlxrun diff sam.rlx --precision bf16 --against cpu --against-precision f32 --method encode --plot growth.svg"},
			{About: "two artifacts of one model",
				Line: "rlxrun diff sam-q8.rlx sam.rlx --against cpu --method encode"},
		},
		Setup: func(fs *cli.FlagSet) cli.Run {
			var f diffFlags
			fs.Group("What is compared")
			fs.StringVar(&f.against, "against", "",
				"`BACKEND` the other run: a backend, or reference (default reference; with OTHER or --against-precision, the same backend)")
			fs.StringVar(&f.device, "against-device", "", "`ID` its device (default the backend's first)")
			fs.StringVar(&f.precision, "against-precision", "", "`NAME` its precision (default the artifact's first)")
			fs.Float64Var(&f.tolerance, "tolerance", 0,
				"`REL` beside the op's tolerance, allow this times the largest element of a value, as errors add up (default 1e-4; with bf16, 1/64)")
			fs.BoolVar(&f.bisect, "bisect", false,
				"find the first step that is wrong by itself: the reference has another result for the same operands")
			fs.BoolVar(&f.minimize, "minimize", false,
				"--bisect, and write that step, with its operands as weights, as an artifact that runs by itself (-o)")
			fs.StringVarP(&f.output, "output", "o", "", "`FILE` the artifact of --minimize")
			fs.StringVar(&f.plot, "plot", "", "`FILE.svg` draw how the error grows with the steps")
			f.run.declareMethod(fs)
			f.run.host.declare(fs)
			return func(ctx context.Context, env *cli.Env, args []string) error {
				other, err := f.settle(fs, args)
				if err != nil {
					return err
				}
				diff := func(ctx context.Context, s *session) error { return s.diff(ctx, &f, other) }
				return inSession(ctx, env, args[:1], &f.run.host, &f.run.debug, diff)
			}
		},
	}
}

// settle checks the flags and returns the other artifact, which may be the same.
func (f *diffFlags) settle(fs *cli.FlagSet, args []string) (other string, err error) {
	switch {
	case len(args) == 0 || len(args) > 2:
		return "", cli.Usagef("", "%d files are named; allowed are one and two", len(args))
	case f.minimize && f.output == "":
		return "", cli.Usagef("--minimize", "needs a file to write").WithHint("for example -o case.rlx")
	case f.output != "" && !f.minimize:
		return "", cli.Usagef("-o", "is the file of --minimize")
	case f.tolerance < 0:
		return "", cli.Usagef("--tolerance", "%v is negative", f.tolerance)
	}
	if err := onlyRegular("-o "+f.output, f.output); err != nil {
		return "", err
	}
	f.bisect, f.strict = f.bisect || f.minimize, fs.Changed("tolerance")
	other = args[len(args)-1]
	if f.against == "" && len(args) == 1 && f.precision == "" && f.device == "" {
		f.against = theReference
	}
	if f.against == theReference && (len(args) == 2 || f.precision != "" || f.device != "") {
		return "",
			cli.Usagef("--against reference", "has no other file, device or precision; leave out OTHER, --against-device and --against-precision")
	}
	if f.run.random == "" {
		f.run.random = "1"
	}
	return other, nil
}

// side is one of the two runs.
type side struct {
	name    string
	session *session // nil for the reference
	host    hostFlags
	method  *rlx.Method
	in      map[string]rlx.Tensor
	plan    *values.Plan
	given   values.Given
	alias   map[values.PlanStep][]string // names of the outputs, by the step that computes them
}

// diff runs both sides and prints how they differ.
func (s *session) diff(ctx context.Context, f *diffFlags, other string) error {
	j, err := ctxio.Do(ctx, "inputs", func() (*methodJob, error) { return newMethodJob(ctx, s, &f.run) }, nil)
	if err != nil {
		return err
	}
	got := &side{session: s, host: f.run.host, method: j.method, in: j.in}
	want := &side{name: "the reference"}
	if f.against != theReference {
		host := f.run.host
		host.backend, host.device = cmp.Or(f.against, s.backend.Name), f.device
		host.precision = f.precision
		o, err := host.options(s.env)
		if err != nil {
			return err
		}
		o.Memory = s.memory
		if want.session, err = openSession(ctx, s.env, other, &host, o, debugFlags{}); err != nil {
			return err
		}
		defer want.session.close()
		if want.method, err = want.session.model.Method(j.method.Name); err != nil {
			return err
		}
		if err := sameInputs(j.method, want.method, s.model.Path(), other); err != nil {
			return err
		}
		want.in, want.host = j.in, host
	}
	if err := checkSinks(ctx, nil, f.files(), s.model.Path(), append(j.files, other)...); err != nil {
		return err
	}
	if err := got.prepare(ctx); err != nil {
		return err
	}
	if want.session == nil {
		want.method, want.plan, want.given, want.alias = got.method, got.plan, got.given, got.alias
	} else if err := want.prepare(ctx); err != nil {
		return err
	}
	c, err := newComparison(got, want, cmp.Or(max(got.rounding(), want.rounding()), addedUp))
	if err != nil {
		return err
	}
	if f.strict {
		c.scale = f.tolerance
	}
	defer c.spool.Close()
	if err := s.aboutModel(
		s.memory.Fits("values of steps", got.plan.Memory(got.given.Sizes, values.EveryStep))); err != nil {
		return err
	}
	if err := got.run(ctx, nil, c.put); err != nil {
		return err
	}
	if err := want.run(ctx, nil, c.compare); err != nil {
		return err
	}
	r := c.report()
	if err := r.unwatched(ctx, c); err != nil {
		return err
	}
	if !f.bisect {
		r.inFirst(ctx, c)
	} else if err := r.bisect(ctx, c); err != nil {
		return err
	}
	if f.minimize && r.Wrong != nil {
		if err := r.minimize(ctx, f.output); err != nil {
			return err
		}
	}
	if err := r.draw(ctx, f.plot); err != nil {
		return err
	}
	if err := r.print(s.env); err != nil {
		return err
	}
	return r.verdict(f)
}

// files lists the files to write.
func (f *diffFlags) files() []string {
	return slices.DeleteFunc([]string{f.output, f.plot}, func(path string) bool { return path == "" })
}

// sameInputs returns an error if the method has inputs of other names or element types in the other artifact. A run
// checks their sizes, which may be fixed in one artifact only.
func sameInputs(got, want *rlx.Method, path, other string) error {
	kinds := func(m *rlx.Method) (list []string) {
		for _, v := range m.Inputs {
			list = append(list, v.Name+" "+v.DType.String())
		}
		return list
	}
	a, b := kinds(got), kinds(want)
	slices.Sort(a)
	slices.Sort(b)
	if slices.Equal(a, b) {
		return nil
	}
	takes := func(list []string) string { return cmp.Or(strings.Join(list, ", "), "no inputs") }
	return diag.New(device.ErrInput, other, "%s takes %s, and in %s it takes %s; both runs get the same inputs",
		got.Name, takes(kinds(want)), path, takes(kinds(got))).WithHint("compare artifacts of one model")
}

// addedUp is the default of --tolerance. The errors of many steps add up to about 1e-6 of a value's largest element, in
// deep models to more; bugs make errors that are far larger.
const addedUp = 1e-4

// rounding returns the error that a side's precision adds to an op, relative to the largest element of its result. bf16
// keeps 8 bits of the operands of products, f16 and tf32 11.
func (x *side) rounding() float64 {
	if x.session == nil {
		return 0
	}
	return map[string]float64{"bf16": 1.0 / 64, "f16": 1.0 / 512, "tf32": 1.0 / 512}[x.session.host.Precision()]
}

// prepare waits for the backend and loads the method.
func (x *side) prepare(ctx context.Context) (err error) {
	if err := x.session.ready(ctx, nil, nil, x.method); err != nil {
		return err
	}
	if err := x.session.load(ctx, x.method); err != nil {
		return err
	}
	if x.plan, err = x.session.plan(x.method.Name); err != nil {
		return err
	}
	r := rlx.Request{Method: x.method.Name, Inputs: x.in}
	if x.method.Stateful {
		if r.State, err = x.session.keeps(ctx); err != nil {
			return err
		}
	}
	x.given, err = x.session.given(ctx, x.method, &r, true)
	d := x.session.host.Device()
	d.Features = nil
	x.name = fmt.Sprintf("%s, %s, %s for %s", deviceName(x.session.backend.Name, d), x.session.host.Precision(),
		x.session.model.Path(),
		x.plan.Split.Target)
	x.alias = map[values.PlanStep][]string{}
	for i, from := range x.plan.Split.Outputs {
		out := x.plan.Split.Segments[from.Segment].Graph.Outputs[from.Index].Node
		if src := out.Source(); !src.Op.Effects && src.Op != ir.ResultDef {
			at := values.PlanStep{Segment: from.Segment, Node: src}
			x.alias[at] = append(x.alias[at], x.method.Outputs[i].Name)
		}
	}
	return err
}

// plain runs the backend of a side without looking at the values of its steps, and returns the outputs.
func (x *side) plain(ctx context.Context) (map[string]rlx.Tensor, error) {
	r := rlx.Request{Method: x.method.Name, Inputs: x.in}
	res, err := x.request(ctx, r)
	if err != nil {
		return nil, err
	}
	return res.Outputs, nil
}

// request runs a request. Each run begins with the same state.
func (x *side) request(ctx context.Context, r rlx.Request) (*rlx.Result, error) {
	if x.method.Stateful {
		st, err := x.session.keeps(ctx)
		if err != nil {
			return nil, err
		}
		if r.State, err = st.Clone(ctx); err != nil {
			return nil, err
		}
		defer r.State.Close()
	}
	return x.session.run(ctx, r)
}

// run runs a side and calls step for each step. Operands can be read in the steps that keep selects.
func (x *side) run(ctx context.Context, keep func(values.PlanStep) bool, step func(*values.Step) error) error {
	if x.session == nil {
		return x.plan.RunReference(ctx, x.given, step)
	}
	f, err := x.plan.Follow(x.given, keep, step)
	if err != nil {
		return err
	}
	r := rlx.Request{Method: x.method.Name, Inputs: x.in,
		Observe: func(v rlx.StepValue, t rlx.Tensor) error { return f.Observe(v.Step, v.Name, ofModel(t)) }}
	_, err = x.request(ctx, r)
	return err
}

// names returns the names by which a result is found in the other run. If both have the same plan, the step is such a
// name.
func (x *side) names(other *side, s *values.Step, k int) (list []string) {
	if x.plan == other.plan {
		return []string{fmt.Sprint(s.Index, " ", k)}
	}
	if name := s.Node.Values()[k].Label(); !strings.HasPrefix(name, "%") {
		list = append(list, "value "+name)
	}
	for _, name := range x.alias[values.PlanStep{Segment: s.Segment, Node: s.Node}] {
		list = append(list, "output "+name)
	}
	return list
}

// diffRow is a value of the first run, and how the other one's differs.
type diffRow struct {
	Step  int           `json:"step"` // from 1
	Op    string        `json:"op"`
	Name  string        `json:"name"`
	Delta *values.Delta `json:"delta,omitempty"` // nil if the other run has no such value

	label  string
	step   values.PlanStep
	tol    ir.Tolerance
	output bool
	spool  string
}

// comparison compares the values of two runs.
type comparison struct {
	got, want *side
	scale     float64
	spool     *values.Spool
	rows      []*diffRow
	byName    map[string]*diffRow
}

func newComparison(got, want *side, scale float64) (*comparison, error) {
	if got.session != nil && want.session != nil && got.plan.Split.Target == want.plan.Split.Target &&
		got.session.model.Facts().Identity == want.session.model.Facts().Identity {
		want.plan = got.plan // steps correspond
	}
	spool, err := values.NewSpool()
	if err != nil {
		return nil, diag.New(
			code.OfWrite(err), "values of steps", "cannot be kept in a temporary file: %w", unpath(err))
	}
	return &comparison{got: got, want: want, scale: scale, spool: spool, byName: map[string]*diffRow{}}, nil
}

// put keeps the results of a step of the first run.
func (c *comparison) put(s *values.Step) error {
	tols := s.Tolerances()
	for k, n := range s.Node.Values() {
		row := &diffRow{Step: s.Index + 1, Op: s.Node.OpName(), Name: n.Label(), label: s.Label(k), tol: tols[k],
			step: values.PlanStep{Segment: s.Segment, Node: s.Node}, spool: fmt.Sprint(len(c.rows))}
		row.output = len(c.got.alias[row.step]) > 0
		c.rows = append(c.rows, row)
		for _, name := range c.got.names(c.want, s, k) {
			c.byName[name] = row
		}
		if err := c.spool.Put(row.spool, s.Results[k]); err != nil {
			return diag.New(code.OfWrite(err), "values of steps", "cannot be kept in a temporary file: %w", unpath(err))
		}
	}
	return nil
}

// compare compares the results of a step of the other run.
func (c *comparison) compare(s *values.Step) error {
	tols := s.Tolerances()
	for k := range s.Node.Values() {
		var row *diffRow
		for _, name := range c.want.names(c.got, s, k) {
			row = cmp.Or(row, c.byName[name])
		}
		if row == nil || row.Delta != nil {
			continue
		}
		got, _, err := c.spool.Get(row.spool)
		if err != nil {
			return err
		}
		tol := ir.Tolerance{Abs: max(row.tol.Abs, tols[k].Abs), Rel: max(row.tol.Rel, tols[k].Rel)}
		d, err := values.Compare(got.Array(), s.Results[k].Array(), tol, c.scale)
		if err != nil {
			if slices.Contains(c.want.names(c.got, s, k), "output "+row.Name) {
				return diag.New(code.Differs, row.label, "%w", err)
			}
			continue // a value of the same name that is another one
		}
		row.Delta = &d
	}
	return nil
}

// errFound ends a run whose first wrong step was found.
var errFound = errors.New("found")

// judge runs a side. It returns the first step that is wrong by itself, among the steps that suspect selects.
func (x *side) judge(ctx context.Context, suspect func(values.PlanStep) bool) (*values.Wrong, error) {
	var wrong *values.Wrong
	err := x.run(ctx, suspect, func(s *values.Step) error {
		if !suspect(values.PlanStep{Segment: s.Segment, Node: s.Node}) {
			return nil
		}
		w, err := s.Judge(ctx, x.rounding())
		if err != nil || w == nil {
			return err
		}
		wrong = w
		return errFound
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return wrong, err
}
