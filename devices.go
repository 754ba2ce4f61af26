package rlx

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"

	"github.com/rlx-go/rlx/core/program"
)

// staged reports whether the method was compiled with rlxc --stages: all of its segments are for one backend.
func staged(p *program.Split) bool {
	return len(p.Segments) > 1 &&
		!slices.ContainsFunc(p.Segments, func(x program.Segment) bool { return x.Target != p.Target })
}

// stage returns the number, in Options.Devices, of the device that runs a segment of a method. Devices run about the
// same number of consecutive segments. Methods in one segment, and those of Options.Fallbacks, run on the first.
func (s *Session) stage(p *program.Split, segment int) int {
	if !staged(p) {
		return 0
	}
	return segment * len(s.stages) / len(p.Segments)
}

// startStages starts a backend for each of Options.Devices after the first, which runs already.
func (s *Session) startStages(ctx context.Context) error {
	s.stages = []*worker{s.worker}
	ids := s.options.Devices
	for _, id := range ids[min(1, len(ids)):] {
		w, err := s.start(ctx, s.options.Backend, id)
		if err != nil {
			return err
		}
		w.line = newLine()
		s.stages = append(s.stages, w)
	}
	for _, w := range s.stages {
		if w.device.Type != "cpu" || len(s.stages) == 1 {
			continue
		}
		same := 0
		for _, x := range s.stages {
			if x.device.ID == w.device.ID {
				same++
			}
		}
		w.threads = max(1, cmp.Or(s.options.Threads, runtime.GOMAXPROCS(0))/same)
	}
	return s.placeStates()
}

// placeStates finds the device of each state tensor, and the offset there. A session with one device keeps them where
// the artifact has them.
func (s *Session) placeStates() error {
	if len(s.options.Devices) < 2 {
		s.homes = []home{{s.model.states, s.model.stateSize}}
		return nil
	}
	s.homes = make([]home, len(s.stages))
	at, most, divided := map[string]int{}, 0, ""
	for _, m := range s.model.methods {
		x, err := s.choose(m)
		if err != nil {
			continue // a run of the method reports it
		}
		if n := len(x.split.Segments); staged(x.split) && (most == 0 || n < most) {
			most, divided = n, m.Name
		}
		for k, seg := range x.split.Segments {
			for _, t := range seg.States() {
				stage := s.stage(x.split, k)
				if old, ok := at[t.Name]; ok && old != stage {
					return usage(s.model.path, "keeps %s on device %d for one method and on device %d for %s", t.Name,
						old+1, stage+1, m.Name).WithHint("compile it again with rlxc --stages %d", len(s.stages))
				}
				at[t.Name] = stage
			}
		}
	}
	switch n := len(s.stages); {
	case most == 0:
		return usage("Options.Devices", "names %d devices, but %s has no method in stages for backend %s", n,
			s.model.path, s.backend.Name()).WithHint("compile it with rlxc --stages %d", n).Naming("Options.Devices")
	case n > most:
		return usage("Options.Devices", "names %d devices, but %s of %s has %d stages", n, divided, s.model.path, most).
			WithHint("name %d devices at most, or compile it with rlxc --stages %d", most, n).Naming("Options.Devices")
	}
	for _, t := range s.model.states {
		h := &s.homes[at[t.Name]]
		t.Offset = h.size
		h.tensors = append(h.tensors, t)
		h.size += max(program.AlignUp(t.Bytes()), program.Align)
	}
	return nil
}

// home is the part of a state that lies on one device.
type home struct {
	tensors []program.StateTensor // with their offsets there
	size    int64
}

// placed returns the program with its states at their places on a device.
func (s *Session) placed(p *program.Program, stage int) *program.Program {
	if len(s.stages) < 2 || p.StateSize == 0 {
		return p
	}
	out, h := *p, s.homes[stage]
	out.StateSize, out.Places = h.size, slices.Clone(p.Places)
	moved := map[int64]int64{}
	for _, t := range p.States() {
		moved[t.Offset] = h.tensors[indexOf(h.tensors, t.Name)].Offset
	}
	for i, pl := range p.Places {
		if pl.Space != program.State {
			continue
		}
		for _, t := range p.States() {
			if d := pl.Offset - t.Offset; d >= 0 && (d < t.Bytes() || d == 0) {
				out.Places[i].Offset = moved[t.Offset] + d
				break
			}
		}
	}
	return &out
}

// A line lets runs use a backend one at a time, in the order in which they have joined.
type line struct {
	mu      sync.Mutex
	busy    bool
	waiting []chan struct{}
}

func newLine() *line { return &line{} }

// join gets in line. The result is closed when it is this run's turn, which must then end with leave.
func (l *line) join() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.busy {
		l.busy = true
		return atOnce
	}
	turn := make(chan struct{})
	l.waiting = append(l.waiting, turn)
	return turn
}

// atOnce is the turn of a run that need not wait.
var atOnce = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// leave ends a turn.
func (l *line) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy = len(l.waiting) > 0; l.busy {
		close(l.waiting[0])
		l.waiting = l.waiting[1:]
	}
}

// wait waits for a turn that join has given. If ctx is done first, it gives the turn up.
func (l *line) wait(ctx context.Context, turn <-chan struct{}) error {
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	i := slices.IndexFunc(l.waiting, func(c chan struct{}) bool { return c == turn })
	if i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	l.mu.Unlock()
	if i < 0 { // it was given in the meantime
		l.leave()
	}
	return context.Cause(ctx)
}
