package rlx

import (
	"context"
	"slices"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/units"
	"github.com/rlx-go/rlx/plugins/rpc"
)

// loaded is a method that is ready to run.
type loaded struct {
	method   *Method
	schedule *Schedule
	prog     *program.Program
	binder   *program.Binder
	exe      *rpc.Executable
	start    time.Time
	took     time.Duration
}

// A Kernel is how an op is run: natively, or by the slow reference that defines it.
type Kernel = device.Kernel

// Loaded is a method as a session has loaded it.
type Loaded struct {
	*Schedule          // the best one for the backend
	Kernels   []Kernel // of the schedule's ops
	Memory    int64    // upper bound of their scratch memory in bytes, beside the arena
	Start     time.Time
	Duration  time.Duration // of loading it
}

// Load loads the methods that are not loaded yet. It checks that memory suffices for all of them together, and the digests of their
// weights. The backend then maps the weights and compiles what it must. Either all are loaded, or none.
//
// Errors match ErrUsage (no such method), ErrUnsupported, ErrDevice, ErrMemory, ErrArtifact, ErrLost, or the context's cause.
func (s *Session) Load(ctx context.Context, methods ...string) error {
	select {
	case s.loading <- struct{}{}:
		defer func() { <-s.loading }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	var need []*loaded
	for _, name := range methods {
		if s.ready(name) != nil || slices.ContainsFunc(need, func(l *loaded) bool { return l.method.Name == name }) {
			continue
		}
		m, err := s.model.Method(name)
		if err != nil {
			return err
		}
		sched, err := s.choose(m)
		if err != nil {
			return err
		}
		need = append(need, &loaded{method: m, schedule: sched, prog: sched.prog})
	}
	if len(need) == 0 {
		return nil
	}
	parts, err := s.reserve(need)
	if err != nil {
		return err
	}
	ctx, cancel := orderly(ctx)
	defer cancel()
	for _, l := range need {
		err := s.load(ctx, l)
		if err == nil { // the first run allocates it
			kernels := part{"kernels", l.exe.Memory()}
			if err = about(s.model.path, s.memory.reserve(kernels)); err == nil {
				parts = append(parts, kernels)
			}
		}
		if err != nil {
			s.drop(need)
			s.memory.release(parts...)
			return s.changed(ctx, err)
		}
	}
	s.reserved = merge(s.reserved, parts...)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range need {
		s.loaded[l.method.Name] = l
	}
	return nil
}

func (s *Session) load(ctx context.Context, l *loaded) (err error) {
	l.start = time.Now()
	defer func() { l.took = time.Since(l.start) }()
	if err := s.model.verifyParams(l.prog); err != nil {
		return err
	}
	l.exe, err = s.backend.LoadMapped(ctx, rpc.LoadOptions{Program: l.prog, Weights: s.model.mapped(), Device: s.device.ID,
		Threads: s.options.Threads, Precision: s.precision})
	if err != nil {
		return err
	}
	l.binder = program.NewBinder(l.prog)
	return s.model.unchanged() // by now the backend has copied what it needs
}

// drop unloads what a failed Load has loaded.
func (s *Session) drop(list []*loaded) {
	for _, l := range list {
		if l.exe != nil {
			l.exe.Close()
		}
	}
}

// ready returns a method that has been loaded, otherwise nil.
func (s *Session) ready(name string) *loaded {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loaded[name]
}

// Loaded describes a loaded method; ok is false if it is not loaded.
func (s *Session) Loaded(method string) (l Loaded, ok bool) {
	if r := s.ready(method); r != nil {
		return Loaded{r.schedule, r.exe.Kernels(), r.exe.Memory(), r.start, r.took}, true
	}
	return Loaded{}, false
}

// choose is the best schedule of a method for the backend.
func (s *Session) choose(m *Method) (*Schedule, error) {
	var progs []*program.Program
	for _, x := range m.Schedules {
		progs = append(progs, x.prog)
	}
	p, err := s.info.Choose(progs)
	if err != nil {
		return nil, err
	}
	return m.Schedules[slices.Index(progs, p)], nil
}

// reserve reserves the memory of methods, together with those that are loaded, and checks that the device has enough.
func (s *Session) reserve(list []*loaded) ([]part, error) {
	first := len(s.loaded) == 0
	progs, weights, size := []*program.Program{}, s.model.Facts().Weights, int64(0)
	if first {
		size = s.model.v.StructureSize()
	}
	var arena, io, before int64
	for _, l := range s.loaded {
		before += l.prog.ArenaSize + l.prog.IOSize
	}
	for _, l := range list {
		p := l.prog
		progs, arena, io = append(progs, p), sum(arena, p.ArenaSize), sum(io, p.IOSize)
		if most := s.info.MaxAlloc; most > 0 && p.ArenaSize > most {
			return nil, diag.New(device.ErrMemory, "arena of "+p.Method, "has %s; backend %s allows %s", units.Bytes(p.ArenaSize), s.backend.Name(), units.Bytes(most))
		}
	}
	// The host has its own copy of inputs and outputs, and each process has one of the programs.
	parts := []part{{"arena", arena}, {"inputs and outputs", sum(io, io)}, {"weights", 0}, {"structure", 2 * format.StructureMemory(size, progs...)}}
	if first {
		parts[2].bytes = weights
	}
	if err := s.memory.reserve(parts...); err != nil {
		return nil, about(s.model.path, err)
	}
	if need, have := sum(sum(arena, io), weights+before), s.device.Memory; s.memory.limit == 0 && have > 0 && need > have {
		s.memory.release(parts...)
		return nil, diag.New(device.ErrMemory, s.model.path, "needs %s of device %s:%s, which has %s", units.Bytes(need), s.backend.Name(), s.device.ID, units.Bytes(have)).
			WithHint("a budget with a limit overrides this check")
	}
	return parts, nil
}
