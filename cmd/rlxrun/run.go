package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/ctxio"
)

// runFlags are the flags of `rlxrun run`.
type runFlags struct {
	tasks   []taskUse
	image   *imageFlag
	method  string
	inputs  cli.List
	outputs cli.List
	random  string   // seed for generated inputs, or empty
	sizes   cli.List // sizes of the generated inputs
	state   stateFlags
	host    hostFlags
	debug   debugFlags
	expect  expectFlags
	receipt receiptFlags
}

func runCommand() *cli.Command {
	return &cli.Command{
		Name: "run", Args: "FILE [flags]", Short: "run an artifact",
		Long: `Runs a compiled model: the task that the artifact declares (` + taskNames() +
			`), or one of its methods on tensors.
Outputs are written when the run has succeeded, all or none; an output that is a symbolic link is written to its target.
"rlxrun FILE --help" also lists what that artifact offers.`,
		JSONLines: true,
		Examples: append(taskExamples(), []cli.Example{
			{About: "one method on tensors",
				Line: "rlxrun sam.rlx -b cpu --method encode -i image=@image.npy -o embeddings=emb.npy"},
			{About: "small tensors can be given as text, others come from files",
				Line: "rlxrun sam.rlx --method decode -i embeddings=@x.safetensors:emb -i points=128,128,0,0 -i labels=1,-1 -o iou=-"},
		}...),
		Setup: func(fs *cli.FlagSet) cli.Run {
			image := new(imageFlag)
			f := runFlags{tasks: taskUses(image), image: image}
			image.declare(fs)
			for _, u := range f.tasks {
				u.flags.declare(fs)
			}
			f.declareMethod(fs)
			fs.Group("Keeping the state of a model, such as the cache of a language model")
			f.state.declare(fs)
			fs.Group("Results")
			fs.ListVarP(&f.outputs, "output", "o",
				"`[NAME=]FILE` write an output; FILE - is stdout. Without NAME: the task's main output, or the method's only one. With --profile, plan=FILE.html is a page with the steps, their times and the memory. Steps that no -o needs are not run (repeatable)")
			f.receipt.declare(fs)
			f.host.declare(fs)
			f.debug.declare(fs)
			f.expect.declare(fs)
			return func(ctx context.Context, env *cli.Env, args []string) error {
				if len(args) == 2 && args[1] == "-" { // short for --prompt -
					args = args[:1]
					if err := fs.Set("prompt", "-"); err != nil {
						return err
					}
				}
				if err := image.settle(); err != nil {
					return err
				}
				for _, u := range f.tasks {
					if err := u.flags.settle(); err != nil {
						return err
					}
				}
				return inSession(ctx, env, args, &f.host, &f.debug, func(ctx context.Context, s *session) error {
					return s.execute(ctx, &f)
				})
			}
		},
		MoreHelp: artifactHelp,
	}
}

// declareMethod declares the flags of a method and its inputs.
func (f *runFlags) declareMethod(fs *cli.FlagSet) {
	fs.Group("Running a method on tensors")
	fs.StringVar(&f.method, "method", "", "`NAME` the method to run")
	fs.ListVarP(
		&f.inputs, "input", "i", "`NAME=VALUE` an input: @FILE.npy, @FILE.npz:NAME, @FILE.safetensors:KEY or 1,2,3 (repeatable)")
	fs.StringVar(
		&f.random, "random", "",
		"`SEED` generate the inputs that -i does not give: floats from -1 to 1, integers 0 and 1")
	fs.ListVarP(
		&f.sizes, "size", "",
		"`SYMBOL=N` with --random: a size known only at run time (default 2, or the nearest allowed; repeatable)")
}

// A job is the work of one command: a task or a method.
type job interface {
	methods() []*rlx.Method
	offers() []offer
	primary() string                        // offer that -o FILE without a name selects; may be empty
	inputs() []string                       // files that the job reads
	outputs() []string                      // values of -o that other flags stand for
	prepare(s *session, sinks []sink) error // called with the outputs to write
	streams() bool                          // whether it writes its main output to standard output while it runs
	run(ctx context.Context, s *session) (map[string]product, error)
	json(sum *summary) any // sum with the job's own additions, after the run
}

// execute runs what the flags request. It checks as much as possible before the model runs, and writes nothing until
// everything has succeeded.
func (s *session) execute(ctx context.Context, f *runFlags) (err error) {
	s.files = f.state
	j, err := ctxio.Do(ctx, "inputs", func() (job, error) { return newJob(ctx, s, f) }, nil)
	if err != nil {
		return err
	}
	sinks, err := s.sinks(j, f)
	if err != nil {
		return err
	}
	if err := f.state.check(j.methods()); err != nil {
		return err
	}
	if err := f.expect.read(ctx, s, j.methods()); err != nil {
		return err
	}
	for _, x := range sinks {
		if x.offer.folder {
			made := missing(x.dest)
			defer func() { made.tidy(err) }()
		}
	}
	if err := j.prepare(s, sinks); err != nil {
		return err
	}
	if err := f.receipt.begin(ctx, s, j, sinks); err != nil {
		return err
	}
	if err := s.ready(ctx, sinks, append(j.inputs(), f.state.inputs()...), j.methods()...); err != nil {
		return err
	}
	products, err := j.run(ctx, s)
	if err != nil {
		return err
	}
	if err := f.expect.check(s, j.methods(), products); err != nil {
		return s.failed(ctx, err)
	}
	return s.finish(ctx, f, j, sinks, products)
}

// sinks returns the outputs that the flags ask for.
func (s *session) sinks(j job, f *runFlags) ([]sink, error) {
	outputs, err := s.takePlan(f.outputs.Values, j.offers())
	if err != nil {
		return nil, err
	}
	sinks, err := parseSinks(append(j.outputs(), outputs...), j.offers(), j.primary())
	if err != nil {
		return nil, err
	}
	if len(sinks) == 0 && !f.debug.any() && f.expect.path == "" && !s.env.JSON && !j.streams() {
		var names []string
		for _, o := range j.offers() {
			names = append(names, o.name)
		}
		return nil, cli.Usagef("-o", "no output is requested; outputs are %s", strings.Join(names, ", ")).WithHint(
			"for example -o %s", exampleSink(j.offers()[0]))
	}
	return sinks, checkForm(s.env, j, sinks)
}

// finish writes the results of a job.
func (s *session) finish(ctx context.Context, f *runFlags, j job, sinks []sink, products map[string]product) error {
	var w files
	defer w.abort()
	sum := s.summarise(j, sinks, products)
	if err := s.saveState(ctx, &w); err != nil {
		return err
	}
	if err := s.addTrace(ctx, &w); err != nil {
		return err
	}
	if s.planPath != "" {
		if err := w.add(ctx, s.planPath, s.writePlan); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx) // interrupted before the outputs were complete; nothing is written
	}
	if err := writeAll(ctx, s.env, sinks, products, &w); err != nil {
		return err
	}
	if err := f.receipt.end(ctx, s, j, sinks, products); err != nil {
		return err
	}
	if err := sum.print(s.env, j); err != nil {
		return err
	}
	if v, ok := j.(interface{ verdict() error }); ok { // implemented by jobs whose parts may fail
		return v.verdict()
	}
	return nil
}

// checkForm checks that standard output can have the results in the form that is asked for.
func checkForm(env *cli.Env, j job, sinks []sink) error {
	if _, ok := j.(interface{ linesOfJSON() }); env.JSONLines && !ok { // implemented by jobs that generate text
		return cli.Usagef("--format", "jsonl is only for language models").WithHint("use json")
	}
	return checkStdout(env, sinks)
}

func exampleSink(o offer) string {
	if o.pictures != nil {
		return o.name + ".png"
	}
	return o.name + "=" + o.name + ".npy"
}

// newJob returns the job that the flags describe.
func newJob(ctx context.Context, s *session, f *runFlags) (job, error) {
	path, onTensors := s.model.Path(), f.method != "" || len(f.inputs.Values) > 0 || f.random != ""
	declared, ok := useOf(f.tasks, s.model)
	var own []string
	if ok {
		own = declared.flags.given()
	}
	for _, u := range f.tasks {
		given := u.flags.given()
		if u.name != declared.name { // the flags belong to a task that the artifact does not have
			given = slices.DeleteFunc(given, func(flag string) bool { return slices.Contains(own, flag) })
		}
		switch {
		case len(given) == 0:
		case onTensors:
			return nil, cli.Usagef(given[0], "cannot be combined with --method, -i and --random")
		case u.name == s.model.Facts().Task && u.name != declared.name:
			return nil, cli.Usagef(given[0], "cannot be combined with %s: it finds all objects, and that one",
				segmentUse(f.tasks).clicks()[0])
		case u.name != declared.name:
			return nil, cli.Usagef(given[0], "%s declares no task that takes %s; it offers the methods %s", path,
				u.takes, methodNames(s.model)).
				WithHint("use --method NAME -i NAME=@FILE.npy -o NAME=FILE.npy")
		}
	}
	if onTensors || !ok {
		return newMethodJob(ctx, s, f)
	}
	if len(own) == 0 {
		return nil, cli.Usagef(path, "no task or method is requested: give %s, or --method with its inputs",
			declared.usage).
			WithHint("for example rlxrun %s %s", path, declared.example)
	}
	if !declared.several {
		if err := f.image.one(); err != nil {
			return nil, err
		}
	}
	return declared.flags.job(ctx, s)
}

// methodJob runs one method on tensors.
type methodJob struct {
	method *rlx.Method
	in     map[string]rlx.Tensor
	files  []string // files that in was read from
	wanted []string // outputs to compute; nil means all
}

func newMethodJob(ctx context.Context, s *session, f *runFlags) (*methodJob, error) {
	m, err := oneMethod(s.model, f.method)
	if err != nil {
		return nil, err
	}
	j, inputs := &methodJob{method: m}, f.inputs.Values
	fits := func(bytes int64) error { return s.aboutModel(s.memory.Fits("inputs", bytes)) }
	fill := func([]rlx.Value) (map[string]rlx.Tensor, error) { return nil, nil }
	switch seed, err := strconv.ParseUint(f.random, 10, 64); {
	case f.random == "" && len(f.sizes.Values) > 0:
		return nil,
			cli.Usagef(
				"--size", "sets sizes of the inputs that --random generates; inputs given with -i have their own")
	case f.random == "":
	case err != nil:
		return nil, cli.Usagef("--random "+f.random, "is not a number")
	default:
		fill = func(missing []rlx.Value) (map[string]rlx.Tensor, error) {
			sizes, err := benchSizes(m, f.sizes.Values)
			if err != nil {
				return nil, err
			}
			bytes := int64(0)
			for _, v := range missing {
				bytes += int64(v.DType.Size()) * int64(tensor.Numel(v.ShapeAt(sizes)))
			}
			if err := fits(bytes); err != nil {
				return nil, err
			}
			return madeUp(missing, sizes, seed), nil
		}
	}
	if j.in, err = readInputs(ctx, m, inputs, fits, fill); err != nil {
		return nil, err
	}
	for _, arg := range inputs {
		if _, value, _ := strings.Cut(arg, "="); strings.HasPrefix(value, "@") {
			file, _, keyed := strings.Cut(value[1:], ".safetensors:")
			if keyed {
				file += ".safetensors"
			}
			j.files = append(j.files, file)
		}
	}
	return j, nil
}

// oneMethod returns the method of that name or, if the name is empty, the only one.
func oneMethod(m *rlx.Model, name string) (*rlx.Method, error) {
	if name != "" {
		return m.Method(name)
	}
	if len(m.Methods()) > 1 {
		return nil, cli.Usagef("--method", "is missing; methods are %s", methodNames(m))
	}
	return m.Methods()[0], nil
}

func methodNames(m *rlx.Model) string {
	var names []string
	for _, x := range m.Methods() {
		names = append(names, x.Name)
	}
	return strings.Join(names, ", ")
}

func (j *methodJob) methods() []*rlx.Method { return []*rlx.Method{j.method} }
func (j *methodJob) inputs() []string       { return j.files }
func (j *methodJob) outputs() []string      { return nil }
func (j *methodJob) streams() bool          { return false }

func (j *methodJob) json(sum *summary) any { return sum }

// prepare restricts the run to the outputs that are written, so that steps that only other outputs need are skipped. A
// run without -o, such as one with only --profile, computes all outputs.
func (j *methodJob) prepare(_ *session, sinks []sink) error {
	for _, k := range sinks {
		if !slices.Contains(j.wanted, k.offer.name) {
			j.wanted = append(j.wanted, k.offer.name)
		}
	}
	return nil
}

func (j *methodJob) offers() (out []offer) {
	for _, v := range j.method.Outputs {
		out = append(out, offer{name: v.Name})
	}
	return out
}

func (j *methodJob) primary() string {
	if len(j.method.Outputs) == 1 {
		return j.method.Outputs[0].Name
	}
	return ""
}

func (j *methodJob) run(ctx context.Context, s *session) (map[string]product, error) {
	r, err := s.Run(ctx, rlx.Request{Method: j.method.Name, Inputs: j.in, Outputs: j.wanted})
	if err != nil {
		return nil, err
	}
	products := map[string]product{}
	for name, t := range r.Outputs {
		products[name] = product{tensor: ofModel(t)}
	}
	return products, nil
}

// artifactHelp returns the text that --help adds for an artifact: its task and its methods.
func artifactHelp(ctx context.Context, _ *cli.Env, args []string) (string, error) {
	if len(args) == 0 {
		return "", nil
	}
	path, err := oneFile(args)
	if err != nil {
		return "", err
	}
	m, err := rlx.Open(ctx, path, rlx.OpenOptions{Lazy: true})
	if err != nil {
		return "", err
	}
	defer m.Close()
	var b strings.Builder
	fmt.Fprintf(&b, "%s offers\n\n", path)
	if u, ok := useOf(taskUses(new(imageFlag)), m); ok {
		b.WriteString(u.flags.help(m) + "\n")
	}
	fmt.Fprintf(&b, "Precisions: %s\n\n", strings.Join(m.Facts().Precisions, ", "))
	b.WriteString("Methods:\n")
	for _, method := range m.Methods() {
		fmt.Fprintf(&b, "  %s\n", method)
	}
	return b.String(), nil
}

func oneFile(args []string) (string, error) {
	switch len(args) {
	case 0:
		return "", cli.Usagef("FILE", "is missing: name an artifact such as sam.rlx")
	case 1:
		return args[0], nil
	}
	return "", cli.Usagef("", "one file is allowed; found %q and %q", args[0], args[1]).WithHint(
		"options are flags: a language model's prompt is given with --prompt TEXT")
}
