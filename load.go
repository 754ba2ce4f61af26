package rlx

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/budget"
	"github.com/rlx-go/rlx/internal/ctxio"
	"github.com/rlx-go/rlx/internal/units"
	"github.com/rlx-go/rlx/plugins/rpc/host"
)

// loaded is a method that is ready to run.
type loaded struct {
	method   *Method
	schedule *Schedule
	pieces   []*piece
	start    time.Time
	took     time.Duration
	crossed  Crossings // of all runs; guarded by Session.mu
}

// A piece is a loaded program: a method, or a segment of one.
type piece struct {
	*worker
	line   *line // that a run of the piece must be at the head of
	prog   *program.Program
	inputs []program.Source
	first  int // number of its first step in the method
	binder *program.Binder
	exe    *host.Executable
}

// A Kernel tells how an op is run: by native code, or by the slow reference that defines the op.
type Kernel struct {
	Op     string
	Native bool // false means the reference
}

// Loaded describes a method that a session has loaded.
type Loaded struct {
	*Schedule          // the best one for the backend
	Kernels   []Kernel // of the ops of the schedule
	Memory    int64    // upper bound of the scratch memory of the kernels in bytes, in addition to the arena
	Start     time.Time
	Duration  time.Duration // time to load it
	Crossings Crossings     // sum over its runs so far
}

// Load loads the methods that are not loaded yet: all of them, or none if it fails. It checks that memory suffices for
// all, and the digests of their weights. The backend then maps the weights and compiles the kernels that need it.
//
// Errors match ErrUsage (no such method), ErrUnsupported, ErrDevice, ErrMemory, ErrArtifact, ErrLost, or the context's
// cause.
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
		l := &loaded{method: m}
		if l.schedule, err = s.choose(m); err != nil {
			return err
		}
		if l.pieces, err = s.divide(ctx, l.schedule.split); err != nil {
			return err
		}
		need = append(need, l)
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
		if err == nil { // reserved now, because the first run allocates it
			kernels := part("kernels", l.memory())
			if err = about(s.model.path, s.memory.budget.Reserve(kernels)); err == nil {
				parts = append(parts, kernels)
			}
		}
		if err != nil {
			s.drop(need)
			s.memory.budget.Release(parts...)
			return s.changed(ctx, err)
		}
	}
	s.reserved = budget.Merge(s.reserved, parts...)
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
	for _, x := range l.pieces {
		if err := ctxio.Run(ctx, "weights", func() error { return s.model.verifyParams(x.prog) }); err != nil {
			return err
		}
		x.exe, err = x.backend.LoadMapped(
			ctx, host.LoadOptions{Program: x.prog, Weights: s.model.mapped(), Device: x.device.ID,
				Threads: x.threads, Precision: s.precision})
		if err != nil {
			s.lose(x.worker, err)
			return err
		}
		if len(s.replaced) > 0 { // they change only while loading is held
			err := x.backend.SetWeights(ctx, s.model.mapped().Size, s.newWeights(s.replaced), []*host.Executable{x.exe})
			if err != nil {
				s.lose(x.worker, err)
				return err
			}
		}
		x.binder = program.NewBinder(x.prog)
	}
	return s.model.unchanged() // by now the backends have copied the weights that they do not map
}

// divide finds or starts a backend for each segment of a method.
func (s *Session) divide(ctx context.Context, from *program.Split) (out []*piece, err error) {
	first := 0
	for k, x := range from.Segments {
		stage := s.stage(from, k)
		y := &piece{worker: s.stages[stage], line: s.stages[stage].line, prog: s.placed(x.Program, stage),
			inputs: x.Inputs, first: first}
		if x.Target != from.Target {
			if y.worker, err = s.other(ctx, device.BackendOf(x.Target), from.Method); err != nil {
				return nil, err
			}
			if _, err := y.info.Choose([]*program.Program{x.Program}); err != nil {
				return nil, err
			}
		}
		out, first = append(out, y), first+len(x.Steps)
	}
	return out, nil
}

// memory returns an upper bound of the scratch memory of the kernels in bytes.
func (l *loaded) memory() (n int64) {
	for _, x := range l.pieces {
		n = budget.Sum(n, x.exe.Memory())
	}
	return n
}

// drop unloads the methods of a Load that failed.
func (s *Session) drop(list []*loaded) {
	for _, l := range list {
		for _, x := range l.pieces {
			if x.exe != nil {
				x.exe.Close()
			}
		}
	}
}

// ready returns a method if it is loaded, otherwise nil.
func (s *Session) ready(name string) *loaded {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loaded[name]
}

// Loaded describes a loaded method. ok is false if the method is not loaded.
func (s *Session) Loaded(method string) (l Loaded, ok bool) {
	if r := s.ready(method); r != nil {
		l := Loaded{Schedule: r.schedule, Memory: r.memory(), Start: r.start, Duration: r.took}
		s.mu.Lock()
		l.Crossings = r.crossed
		s.mu.Unlock()
		for _, x := range r.pieces {
			for _, k := range x.exe.Kernels() {
				l.Kernels = append(l.Kernels, Kernel(k))
			}
		}
		return l, true
	}
	return Loaded{}, false
}

// choose returns the best schedule of a method for the backend.
func (s *Session) choose(m *Method) (*Schedule, error) {
	var splits []*program.Split
	for _, x := range m.Schedules {
		splits = append(splits, x.split)
	}
	p, err := s.info.ChooseSplit(splits)
	if err != nil {
		return nil, err
	}
	return m.Schedules[slices.Index(splits, p)], nil
}

// reserve reserves memory for methods, in addition to those that are loaded, and checks that the devices have enough.
func (s *Session) reserve(list []*loaded) ([]budget.Part, error) {
	progs, size := []*program.Program{}, int64(0)
	first := len(s.loaded) == 0
	if first {
		size = s.model.verified.StructureSize()
	}
	var arena, io int64
	on := map[*worker]int64{} // device memory
	for _, l := range s.loaded {
		for _, x := range l.pieces {
			on[x.worker] += x.prog.ArenaSize + x.prog.IOSize
		}
	}
	for _, l := range list {
		for _, x := range l.pieces {
			p := x.prog
			progs, arena, io = append(progs, p), budget.Sum(arena, p.ArenaSize), budget.Sum(io, p.IOSize)
			if most := x.info.MaxAlloc; most > 0 && p.ArenaSize > most {
				return nil, diag.New(device.ErrMemory, "arena of "+p.Method, "has %s; backend %s allows %s",
					units.Bytes(p.ArenaSize), x.backend.Name(), units.Bytes(most))
			}
			on[x.worker] = budget.Sum(on[x.worker], budget.Sum(p.ArenaSize, p.IOSize))
		}
	}
	weights := s.model.Facts().Weights
	s.countWeights(list, on)
	// The host has its own copy of inputs and outputs. Each process has a copy of the programs.
	parts := []budget.Part{part("arena", arena), part("inputs and outputs", budget.Sum(io, io)), part("weights", 0),
		part("structure", 2*format.StructureMemory(size, progs...))}
	if first {
		parts[2].Bytes = weights
	}
	if err := s.memory.budget.Reserve(parts...); err != nil {
		return nil, about(s.model.path, err)
	}
	for w, n := range on {
		if need, have := n, w.device.Memory; !s.memory.budget.Limited() && have > 0 && need > have {
			s.memory.budget.Release(parts...)
			return nil, diag.New(device.ErrMemory, s.model.path, "needs %s of device %s:%s, which has %s",
				units.Bytes(need), w.backend.Name(), w.device.ID, units.Bytes(have)).
				WithHint("%s overrides this check", budget.AnyOption).Naming(budget.AnyOption)
		}
	}
	return parts, nil
}

// countWeights adds the weights of methods to the memory of their devices. A single device counts all weights.
func (s *Session) countWeights(list []*loaded, on map[*worker]int64) {
	all := slices.Collect(maps.Values(s.loaded))
	seen := map[*worker]map[int64]bool{}
	for _, l := range append(all, list...) {
		for _, x := range l.pieces {
			if x.worker == s.worker && len(s.stages) == 1 {
				continue
			}
			if seen[x.worker] == nil {
				seen[x.worker] = map[int64]bool{}
			}
			for _, n := range x.prog.Graph.Params() {
				if pl := x.prog.Places[n.ID]; !seen[x.worker][pl.Offset] {
					seen[x.worker][pl.Offset] = true
					on[x.worker] += pl.Size
				}
			}
		}
	}
	if len(s.stages) == 1 {
		on[s.worker] = budget.Sum(on[s.worker], s.model.Facts().Weights)
	}
}
