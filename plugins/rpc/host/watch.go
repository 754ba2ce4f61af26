package host

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"
)

// runState describes the current run. Its numbers come from the backend and are not trusted, so they are used only for
// progress bars and messages.
type runState struct {
	prog       atomic.Pointer[program.Program] // nil between runs
	generation atomic.Int64
	steps      atomic.Int64 // steps started; used without a region
	beats      atomic.Int64 // messages received; used without a region
	// observing is set while the caller's observer runs. The backend may have to wait for it, so no deadline counts
	// this time.
	observing atomic.Bool
}

func (r *runState) begin(p *program.Program, generation int64) {
	r.steps.Store(0)
	r.beats.Store(0)
	r.generation.Store(generation)
	r.prog.Store(p)
}

// end clears the state. It also resets beats, because other calls have no heartbeats without a region.
func (r *runState) end() {
	r.prog.Store(nil)
	r.beats.Store(0)
}

// Progress returns how many steps of the current run have started, and how many the run has. It returns 0, 0 between
// runs.
func (s *Session) Progress() (started, total int) {
	p := s.running.prog.Load()
	if p == nil {
		return 0, 0
	}
	n := s.running.steps.Load()
	if s.region != nil {
		n = 0
		if s.region.Load(wire.WordGeneration) == s.running.generation.Load() {
			n = s.region.Load(wire.WordSteps)
		}
	}
	return int(max(0, min(n, int64(len(p.Steps))))), len(p.Steps)
}

// stepOf returns the step that started last, or nil if none has started or it is unknown.
func (s *Session) stepOf(p *program.Program) *wire.StepError {
	started, total := s.Progress()
	if started == 0 {
		return nil
	}
	n := p.Graph.Nodes[p.Steps[started-1].Node]
	return &wire.StepError{Step: started, Steps: total, Op: n.OpName(), Name: n.Label()}
}

// sampleEvery is the interval between checks of the heartbeat. A stall is measured in unchanged samples and not in
// time, because the machine may have been suspended.
const sampleEvery = 100 * time.Millisecond

// watch kills the backend if its heartbeats stop for Timeouts.Stall, or if no step of a run starts for Timeouts.Step.
// Stall does not apply to a backend that sends no heartbeats. The caller must stop the watch at the end of the call.
//
// A call shorter than sampleEvery costs one timer and no goroutine, because waking a thread takes longer than a short
// run.
func (s *Session) watch() *lifeWatch {
	w := &lifeWatch{}
	w.begin(s, 0, nil)
	return w
}

// lifeWatch checks for heartbeats during one call at a time.
type lifeWatch struct {
	s *Session

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
	last    int64 // value of the heartbeat in the last sample
	same    int   // number of samples since it changed
	step    step  // the newest step in the last sample
	still   int   // number of samples since it changed

	end       time.Time // when the call takes too long; zero for never
	interrupt func()    // called then
	overdue   bool      // it was called
}

// step is a step of a run.
type step struct {
	generation int64
	started    int
}

// begin watches a call. If limit is not 0, it calls interrupt when the call has taken that long.
func (w *lifeWatch) begin(s *Session, limit time.Duration, interrupt func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.s, w.stopped, w.last, w.same, w.step, w.still = s, false, s.beat(), 0, step{}, 0
	w.end, w.interrupt, w.overdue = time.Time{}, interrupt, false
	wait := sampleEvery
	if limit > 0 {
		w.end, wait = time.Now().Add(limit), min(wait, limit)
	}
	if w.timer == nil {
		w.timer = time.AfterFunc(wait, w.sample)
	} else {
		w.timer.Reset(wait)
	}
}

func (w *lifeWatch) sample() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped || w.s.dead.Err() != nil {
		return
	}
	wait := sampleEvery
	if !w.end.IsZero() {
		if wait = min(wait, time.Until(w.end)); wait <= 0 {
			w.overdue = true
			w.interrupt()
			return
		}
	}
	running, limits := &w.s.running, w.s.opts.Timeouts
	b, at := w.s.beat(), step{generation: running.generation.Load()}
	at.started, _ = w.s.Progress()
	busy := running.observing.Load()
	w.same++
	if b != w.last || busy {
		w.last, w.same = b, 0
	}
	w.still++
	if at != w.step || busy || running.prog.Load() == nil {
		w.step, w.still = at, 0
	}
	switch {
	case b != 0 && time.Duration(w.same)*sampleEvery >= limits.Stall:
		w.s.fail(lost(code.Stopped, w.s.name, "sent no heartbeat for %v", limits.Stall))
	case limits.Step > 0 && time.Duration(w.still)*sampleEvery >= limits.Step:
		w.s.fail(lost(code.Stopped, w.s.name, "started no other step for %v", limits.Step).WithHint(
			"Timeouts.Step allows longer steps").Naming("Timeouts.Step"))
	default:
		w.timer.Reset(wait)
	}
}

// stop ends the watch of a call, and reports whether it took too long.
func (w *lifeWatch) stop() (overdue bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.timer.Stop()
	return w.overdue
}

// beat returns a number that changes while the backend lives, or 0 if there is no heartbeat.
func (s *Session) beat() int64 {
	if s.region != nil {
		return s.region.Load(wire.WordBeat)
	}
	return s.running.beats.Load()
}

// describeRun describes a run in error messages, such as "during step 2 of 4 (gelu) of encode".
func describeRun(p *program.Program, step *wire.StepError) string {
	if step == nil {
		return fmt.Sprintf("before the first step of %s", p.Method)
	}
	return fmt.Sprintf("during %v of %s", step, p.Method)
}
