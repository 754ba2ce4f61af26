package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/cli"
)

// session is an opened artifact and a backend, which starts meanwhile.
type session struct {
	env     *cli.Env
	model   *rlx.Model
	memory  *rlx.Budget
	backend found
	debug   debugFlags
	trace   *trace

	cancel  context.CancelFunc
	started chan struct{} // closed once host and err are set
	host    *rlx.Session
	err     error

	files stateFlags
	state *rlx.State     // of runs of methods that keep one; nil before the first
	text  *rlx.Generator // nil if no text is generated

	bar  *cli.Progress // of work that has many runs; they have no bars of their own then
	runs []runRecord
}

// runRecord is one run of a method.
type runRecord struct {
	*rlx.Result
	method string
}

// openSession opens the artifact while the backend starts. If both fail, it returns the artifact's error. Before the artifact has
// been verified, the backend gets nothing of it but the descriptor.
func openSession(ctx context.Context, env *cli.Env, path string, f *hostFlags, o rlx.Options, debug debugFlags) (*session, error) {
	reg, err := findBackends(f.plugins.Values)
	if err != nil {
		return nil, err
	}
	s := &session{env: env, memory: o.Memory, debug: debug, started: make(chan struct{})}
	if s.backend, o.Device, err = f.choose(reg); err != nil {
		return nil, err
	}
	o.Backend = s.backend.Backend
	s.backend.warn(env)
	if debug.trace != "" {
		s.trace = &trace{origin: cli.Started()}
	}
	done := s.trace.span("open")
	if s.model, err = rlx.Open(ctx, path, f.openOptions(o.Memory)); err != nil {
		return nil, err
	}
	done()
	for _, b := range reg.first() {
		if helps(s.model, s.backend.Name, b.Name) {
			b.warn(env)
			o.Fallbacks = append(o.Fallbacks, b.Backend)
		}
	}
	if o.Precision, err = s.model.Precision(o.Precision); err != nil {
		s.model.Close()
		return nil, err
	}
	ctx, s.cancel = context.WithCancel(ctx)
	go func() {
		defer close(s.started)
		defer s.trace.span("start backend")()
		s.host, s.err = s.model.NewSession(ctx, o)
	}()
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

// helps reports whether a model has a method for a backend of which another one runs a part.
func helps(m *rlx.Model, backend, other string) bool {
	for _, x := range m.Methods() {
		for _, s := range x.Schedules {
			if target, _, _ := strings.Cut(s.Target, ":"); target == backend && other != backend && slices.Contains(s.Backends, other) {
				return true
			}
		}
	}
	return false
}

// inSession opens the artifact that args name and a backend, does the work and ends both.
func inSession(ctx context.Context, env *cli.Env, args []string, f *hostFlags, debug *debugFlags, work func(context.Context, *session) error) error {
	path, err := oneFile(args)
	if err != nil {
		return err
	}
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
	return f.explain(ctx, err)
}

// ready checks what the flags name, and then waits for the backend. Sinks and the trace must not overwrite an input, and the patterns
// of --dump-tensors must match.
func (s *session) ready(ctx context.Context, sinks []sink, inputs []string, methods ...*rlx.Method) error {
	var more []string
	if s.debug.trace != "" {
		more = append(more, s.debug.trace)
	}
	more = append(more, s.files.outputs()...)
	if err := checkSinks(ctx, sinks, more, s.model.Path(), inputs...); err != nil {
		return err
	}
	if err := s.debug.checkGlobs(methods); err != nil {
		return err
	}
	if err := s.need("outputs as JSON", s.jsonBytes(sinks, methods)); err != nil {
		return err
	}
	<-s.started
	return s.err
}

// load loads methods that run together. A run of an unloaded method loads it after checking the inputs.
func (s *session) load(ctx context.Context, methods ...*rlx.Method) error {
	var names []string
	for _, m := range methods {
		names = append(names, m.Name)
	}
	return s.host.Load(ctx, names...)
}

// loaded is the description of a loaded method.
func (s *session) loaded(method string) rlx.Loaded {
	l, ok := s.host.Loaded(method)
	if !ok {
		panic("BUG: " + method + " is not loaded")
	}
	return l
}

// jsonElement is the memory of a number in --format json, in bytes: as a value, as text, and as indented text.
const jsonElement = 128

// jsonBytes is the memory of outputs that are written to standard output as JSON, 0 if they are written as text.
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

// need checks memory that is about to be allocated against the limit.
func (s *session) need(what string, bytes int64) error {
	return s.aboutModel(s.memory.Reserve(what, bytes))
}

// aboutModel names the artifact in an error of memory.
func (s *session) aboutModel(err error) error {
	if e, ok := errors.AsType[*diag.Error](err); ok && e.Subject == "" {
		e.Subject = s.model.Path()
	}
	return err
}

// run executes a method once, with the debug options of the flags.
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
	res, err := s.host.Run(ctx, r)
	if err != nil {
		return nil, err
	}
	if l := s.loaded(r.Method); !slices.ContainsFunc(s.runs, func(r2 runRecord) bool { return r2.method == r.Method }) {
		s.trace.add("load "+r.Method, l.Start, l.Start.Add(l.Duration))
	}
	s.trace.add("run "+r.Method, res.Start, res.Start.Add(res.Duration))
	s.runs = append(s.runs, runRecord{res, r.Method})
	return res, nil
}

// close ends the backend and waits for its process.
func (s *session) close() {
	s.cancel()
	<-s.started
	if s.host != nil {
		s.host.Close()
	}
	s.model.Close()
}

// ms is a time in milliseconds, to a microsecond.
func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
