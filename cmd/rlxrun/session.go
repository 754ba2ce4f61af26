package main

import (
	"context"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/plugins/rpc"
)

// session is an opened artifact and a backend that is starting beside it.
type session struct {
	env    *cli.Env
	flags  *hostFlags
	model  *model
	debug  debugFlags
	trace  *trace
	memory *memory

	cancel  context.CancelFunc
	started chan struct{} // closed once backend and err are set
	backend *rpc.Session
	err     error
}

// openSession opens the artifact while the backend starts. Of an artifact and a backend that both fail, the artifact's
// error counts. What the backend is told about the artifact before it has been verified is nothing but its descriptor.
func openSession(ctx context.Context, env *cli.Env, path string, f *hostFlags, debug debugFlags) (*session, error) {
	reg, err := findBackends(f.plugins.Values)
	if err != nil {
		return nil, err
	}
	b, err := f.resolve(reg)
	if err != nil {
		return nil, err
	}
	b.warn(env)
	s := &session{env: env, flags: f, debug: debug, started: make(chan struct{})}
	if debug.trace != "" {
		s.trace = &trace{origin: cli.Started()}
	}
	done := s.trace.span("open")
	if s.model, err = openModel(path, f.verify.Value, f.parsedMemory); err != nil {
		return nil, err
	}
	done()
	s.memory = newMemory(path, f.parsedMemory)
	if err := f.choosePrecision(s.model, debug); err != nil {
		s.model.close()
		return nil, err
	}
	ctx, s.cancel = context.WithCancel(ctx)
	go func() {
		defer close(s.started)
		defer s.trace.span("start backend")()
		s.backend, s.err = rpc.Start(ctx, rpc.Options{Path: b.path, Name: b.name, Artifact: s.model.file, IOSize: s.model.largestIO(),
			Encode: encodeProgram, Log: f.logger(env), Sandbox: rpc.Sandbox(f.sandbox.Value)})
	}()
	done = s.trace.span("verify")
	err = s.model.verify(ctx)
	done()
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
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
	ctx, cancel, err := f.deadline(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	env.Until(ctx)
	s, err := openSession(ctx, env, path, f, *debug)
	if err != nil {
		return f.explain(ctx, err)
	}
	err = work(ctx, s)
	if err != nil && ctx.Err() == nil {
		if changed := s.model.unchanged(); changed != nil {
			err = changed // a backend whose weights were cut short has crashed for it
		}
	}
	s.close()
	return f.explain(ctx, err)
}

// ready makes methods ready to run, after all that the flags name has been found right: sinks and the trace, which must not
// take the place of an input, and the patterns of --dump-tensors.
func (s *session) ready(ctx context.Context, sinks []sink, inputs []string, methods ...string) (*host, map[string]*loaded, error) {
	var more []string
	if s.debug.trace != "" {
		more = append(more, s.debug.trace)
	}
	if err := checkSinks(ctx, sinks, more, s.model.path, inputs...); err != nil {
		return nil, nil, err
	}
	if err := s.debug.checkGlobs(s.model, methods); err != nil {
		return nil, nil, err
	}
	if err := s.memory.need(part{"outputs as JSON", s.jsonBytes(sinks, methods)}); err != nil {
		return nil, nil, err
	}
	h, err := s.host(ctx)
	if err != nil {
		return nil, nil, err
	}
	ready, err := h.loadAll(ctx, methods...)
	return h, ready, err
}

// jsonElement is what a number costs in --format json, in bytes: as a value, as text, and as indented text.
const jsonElement = 128

// jsonBytes is what the outputs that go to standard output take there as JSON; nothing where they go as text.
func (s *session) jsonBytes(sinks []sink, methods []string) (n int64) {
	if !s.env.JSON {
		return 0
	}
	for _, k := range sinks {
		for _, m := range methods {
			g := s.model.targets(m)[0].Graph
			for _, o := range g.Outputs {
				if k.dest == "-" && o.Name == k.offer.name {
					n += g.Syms.MaxBytes(o.Node.Type) / int64(o.Node.Type.DType.Size()) * jsonElement
				}
			}
		}
	}
	return n
}

// host waits for the backend and chooses its device.
func (s *session) host(ctx context.Context) (*host, error) {
	<-s.started
	if s.err != nil {
		return nil, s.err
	}
	info, err := s.backend.Info(ctx)
	if err != nil {
		return nil, err
	}
	h := &host{env: s.env, model: s.model, backend: s.flags.backendName, info: info, precision: s.flags.precision, memory: s.memory, debug: s.debug,
		trace: s.trace, unchanged: s.model.unchanged, peakRSS: s.backend.PeakRSS, sandbox: s.backend.Sandbox()}
	if err := h.chooseDevice(s.flags.deviceOfFlags); err != nil {
		return nil, err
	}
	if err := info.CheckPrecision(h.precision); err != nil {
		return nil, err
	}
	h.load = func(ctx context.Context, p *program.Program) (executable, error) {
		if err := s.model.verifyProgram(p); err != nil {
			return nil, err
		}
		e, err := s.backend.LoadMapped(ctx, rpc.LoadOptions{Program: p, Weights: s.model.mapped(), Device: h.device.ID,
			Threads: s.flags.parsedThreads, Precision: h.precision})
		if err != nil {
			return nil, err
		}
		if err := s.model.unchanged(); err != nil { // what the backend copied, it has copied now
			e.Close()
			return nil, err
		}
		return e, nil
	}
	return h, nil
}

// close ends the backend and waits until nothing of it is left.
func (s *session) close() {
	s.cancel()
	<-s.started
	if s.backend != nil {
		s.backend.Close()
	}
	s.model.close()
}

// startAlone starts a backend without an artifact, to ask it what it is.
func startAlone(ctx context.Context, env *cli.Env, f *hostFlags, b found) (device.Info, rpc.Confinement, error) {
	s, err := rpc.Start(ctx, rpc.Options{Path: b.path, Name: b.name, Log: f.logger(env), Timeouts: rpc.Timeouts{Start: 5 * time.Second},
		Sandbox: rpc.Sandbox(f.sandbox.Value)})
	if err != nil {
		return device.Info{}, rpc.Confinement{}, err
	}
	defer s.Close()
	info, err := s.Info(ctx)
	return info, s.Sandbox(), err
}
