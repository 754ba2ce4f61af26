package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/text"
)

// session is an open artifact and a backend. The backend starts while the artifact is opened.
type session struct {
	env     *cli.Env
	model   *rlx.Model
	memory  *rlx.Budget
	backend found
	chosen  string // why, if --backend auto had a choice
	strict  bool
	debug   debugFlags
	flags   *hostFlags
	trace   *trace
	log     *messageLog

	cancel   context.CancelFunc
	options  rlx.Options    // of host
	started  chan struct{}  // closed once host and err are set
	ending   sync.WaitGroup // sessions of backends that were not chosen
	host     *rlx.Session
	renewing sync.Mutex // held while reopen looks at host
	running  sync.Mutex // held by Run: several devices have several runs in progress
	closing  sync.Once
	err      error

	files    stateFlags
	outputs  []string        // of other flags, which ready checks
	planPath string          // file of -o plan=FILE, or empty
	fresh    bool            // results from before do not count
	weights  []string        // files of --weights
	state    *rlx.State      // state of methods that have one; nil before the first run
	text     *text.Generator // nil unless text is generated

	graphs *format.Verified // the programs of model; nil until plan is called
	stats  statsTable
	// the last run, if --capsule asks for a capsule of a failed run
	attempt *attempt

	bar  *cli.Progress // for work that consists of many runs; these then have no progress bars of their own
	runs []runRecord
}

// runRecord is one run of a method.
type runRecord struct {
	*rlx.Result
	method string
}

// openSession opens the artifact while the backend starts. If both fail, it returns the artifact's error. Until the
// artifact is verified, the backend has only its descriptor.
func openSession(ctx context.Context, env *cli.Env, path string, f *hostFlags, o rlx.Options, debug debugFlags) (
	*session, error) {
	reg, err := findBackends(f.plugins.Values)
	if err != nil {
		return nil, err
	}
	s := &session{env: env, memory: o.Memory, debug: debug, flags: f, weights: f.weights.Values,
		strict: f.strict, started: make(chan struct{})}
	auto := f.auto() && len(reg.first()) > 0
	if !auto {
		if len(f.devices) > 0 {
			s.backend, o.Devices, err = f.chooseSeveral(reg)
		} else {
			s.backend, o.Device, err = f.choose(reg)
		}
		if err != nil {
			return nil, err
		}
		s.backend.warn(env)
	}
	if debug.trace != "" {
		s.trace = &trace{origin: cli.Started()}
	}
	if s.log, err = newMessageLog(debug.messages); err != nil {
		return nil, err
	}
	if s.log != nil {
		o.Protocol = s.log
	}
	done := s.trace.span("open")
	if s.model, err = rlx.Open(ctx, path, f.openOptions(o.Memory)); err != nil {
		return nil, err
	}
	done()
	if o.Precision, err = s.model.Precision(o.Precision); err != nil {
		s.model.Close()
		return nil, err
	}
	if auto {
		var best *candidate
		if best, s.chosen, err = s.chooseAuto(ctx, reg, o); err != nil {
			s.ending.Wait()
			s.model.Close()
			return nil, err
		}
		s.backend, s.host, o.Device = best.found, best.session, best.device.ID
		s.backend.warn(env)
	}
	o = s.on(o, reg, s.backend.Backend)
	for _, b := range reg.first() {
		if helps(s.model, s.backend.Name, b.Name) {
			b.warn(env)
		}
	}
	s.options = o
	ctx, s.cancel = context.WithCancel(ctx)
	go s.start(ctx)
	if f.verify.Value == verifyLazy {
		return s, nil
	}
	done = s.trace.span("verify")
	err = s.model.Verify(ctx)
	done()
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// start starts the backend, unless choosing it did, and replaces weights.
func (s *session) start(ctx context.Context) {
	defer close(s.started)
	if s.host == nil {
		defer s.trace.span("start backend")()
		if s.host, s.err = s.model.NewSession(ctx, s.options); s.err != nil {
			return
		}
	}
	s.err = s.replaceWeights(ctx, s.flags.weights.Values, s.flags.lora)
}

// helps reports whether other runs a segment of one of the methods that the model has for backend.
func helps(m *rlx.Model, backend, other string) bool {
	for _, x := range m.Methods() {
		for _, s := range x.Schedules {
			if target, _, _ := strings.Cut(s.Target, ":"); target == backend && other != backend &&
				slices.Contains(s.Backends, other) {
				return true
			}
		}
	}
	return false
}

// inSession opens the artifact in args and a backend, calls work, and closes both.
func inSession(ctx context.Context, env *cli.Env, args []string, f *hostFlags, debug *debugFlags,
	work func(context.Context, *session) error) (err error) {
	path, err := oneFile(args)
	if err != nil {
		return err
	}
	made := missing(debug.folders()...)
	defer func() { made.tidy(err) }()
	if err := debug.prepare(); err != nil {
		return err
	}
	o, err := f.options(env)
	if err != nil {
		return err
	}
	ctx, cancel := f.deadline(ctx)
	defer cancel()
	env.Until(ctx)
	s, err := openSession(ctx, env, path, f, o, *debug)
	if err != nil {
		return f.explain(ctx, err)
	}
	err = work(ctx, s)
	s.close()
	if closing := s.log.close(); err == nil {
		err = closing
	}
	return f.explain(ctx, err)
}

// ready checks files and patterns in the flags and then waits for the backend: sinks, the trace and the messages must
// not overwrite an input, and the patterns of
// --dump-tensors must match a step.
func (s *session) ready(ctx context.Context, sinks []sink, inputs []string, methods ...*rlx.Method) error {
	var more []string
	if s.debug.trace != "" {
		more = append(more, s.debug.trace)
	}
	if s.log != nil {
		more = append(more, s.log.path)
	}
	if path := s.debug.capsule.path; path != "" {
		more = append(more, path)
	}
	more = slices.Concat(more, s.files.outputs(), s.outputs)
	inputs = append(inputs[:len(inputs):len(inputs)], s.weights...)
	if err := checkSinks(ctx, sinks, more, s.model.Path(), inputs...); err != nil {
		return err
	}
	if err := s.log.open(); err != nil {
		return err
	}
	if err := s.debug.checkGlobs(methods); err != nil {
		return err
	}
	if err := s.need("outputs as JSON", s.jsonBytes(sinks, methods)); err != nil {
		return err
	}
	<-s.started
	if s.err == nil {
		s.announceDevice()
	}
	return s.err
}

// announceDevice prints the device before the first step, unless it is the processor and nothing was chosen.
func (s *session) announceDevice() {
	d := s.host.Device()
	if d.Type == "cpu" && s.chosen == "" && len(s.host.Devices()) == 1 {
		return
	}
	d.Features = nil // the summary lists them
	line := "runs on " + deviceName(s.backend.Name, d)
	for _, d := range s.host.Devices()[1:] {
		d.Features = nil
		line += ", " + deviceName(s.backend.Name, d)
	}
	if s.chosen != "" {
		line += "; " + s.chosen
	}
	s.env.Notef("%s", line)
	if d.Type == rlx.SoftwareDevice {
		s.env.Notef("warning: the processor emulates this device; expect a fiftieth of the speed of -b cpu, or less")
	}
}

// strictly loads a method and, with --strict, returns an error if something runs in place of the backend's own kernels.
func (s *session) strictly(ctx context.Context, method string) error {
	if !s.strict {
		return nil
	}
	if err := s.host.Load(ctx, method); err != nil {
		return err
	}
	l := s.loaded(method)
	if len(l.Backends) > 0 {
		return diag.New(code.Unsupported, "--strict", "%s is divided; parts of it run on %s", method,
			strings.Join(l.Backends, ", ")).WithHint("rlxc inspect FILE schedule shows the parts")
	}
	if k := kernelsOf(l); !k.Native {
		return diag.New(code.Unsupported, "--strict", "backend %s has no kernels for %s of %s; the reference runs them",
			s.backend.Name, strings.Join(k.Reference, ", "), method)
	}
	return nil
}

// load loads methods that run together. A method that is not loaded is loaded by its first run, after its inputs were
// checked.
func (s *session) load(ctx context.Context, methods ...*rlx.Method) error {
	var names []string
	for _, m := range methods {
		names = append(names, m.Name)
	}
	return s.host.Load(ctx, names...)
}

// loaded returns the description of a loaded method.
func (s *session) loaded(method string) rlx.Loaded {
	l, ok := s.host.Loaded(method)
	if !ok {
		panic("BUG: " + method + " is not loaded")
	}
	return l
}

// jsonElement is the memory in bytes for a number in --format json: as a value, as text, and as indented text.
const jsonElement = 128

// jsonBytes returns the memory in bytes for outputs that are written to standard output as JSON; 0 if they are written
// as text.
func (s *session) jsonBytes(sinks []sink, methods []*rlx.Method) (n int64) {
	if !s.env.JSON {
		return 0
	}
	for _, k := range sinks {
		for _, m := range methods {
			for _, v := range m.Outputs {
				if k.dest == "-" && v.Name == k.offer.name {
					n += v.MaxBytes() / int64(v.DType.Size()) * jsonElement
				}
			}
		}
	}
	return n
}

// need checks that bytes about to be allocated fit the memory limit.
func (s *session) need(what string, bytes int64) error {
	return s.aboutModel(s.memory.Reserve(what, bytes))
}

// aboutModel adds the artifact's name to an error about memory.
func (s *session) aboutModel(err error) error {
	if e, ok := errors.AsType[*diag.Error](err); ok && e.Subject == "" {
		e.Subject = s.model.Path()
	}
	return err
}

// Model returns the open artifact. With Run, it makes the session a rlx.Runner.
func (s *session) Model() *rlx.Model { return s.model }

// Run executes a method once, with the debug options of the flags.
func (s *session) Run(ctx context.Context, r rlx.Request) (*rlx.Result, error) {
	s.running.Lock()
	defer s.running.Unlock()
	return s.run(ctx, r)
}

// run is Run for a caller that holds s.running, or is the only one. To explain an error it may run methods itself.
func (s *session) run(ctx context.Context, r rlx.Request) (*rlx.Result, error) {
	s.debug.watch(ctx, &r)
	var bar *cli.Progress
	r.Progress = func(done, total int) {
		if s.bar != nil {
			return
		}
		if bar == nil {
			bar = s.env.Progress(r.Method, int64(total))
		}
		bar.Set(int64(done))
	}
	defer func() { bar.Clear() }()
	if m, err := s.model.Method(r.Method); err == nil && m.Stateful && r.State == nil {
		if r.State, err = s.keeps(ctx); err != nil {
			return nil, err
		}
	}
	if err := s.strictly(ctx, r.Method); err != nil {
		return nil, err
	}
	if err := s.begin(ctx, &r); err != nil {
		return nil, err
	}
	looking, err := s.look(ctx, &r)
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	res, err := s.host.Run(ctx, r)
	if err = looking.end(err); err != nil {
		return nil, s.failed(ctx, s.inLoop(ctx, &r, err))
	}
	if l := s.loaded(r.Method); !slices.ContainsFunc(s.runs, func(r2 runRecord) bool { return r2.method == r.Method }) {
		s.trace.add("load "+r.Method, l.Start, l.Start.Add(l.Duration))
	}
	s.trace.add("run "+r.Method, res.Start, res.Start.Add(res.Duration))
	s.runs = append(s.runs, runRecord{res, r.Method})
	return res, nil
}

// close ends the backend and waits for its process.
func (s *session) close() { s.closing.Do(s.closeAll) }

func (s *session) closeAll() {
	s.cancel()
	<-s.started
	if s.host != nil {
		s.host.Close()
	}
	s.ending.Wait()
	if s.graphs != nil {
		s.graphs.Close()
	}
	s.model.Close()
}

// ms returns a duration in milliseconds.
func ms(d time.Duration) float64 { return float64(d) / 1e6 }
