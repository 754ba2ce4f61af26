package rpc

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlx-go/rlx/core/program"
)

// beatEvery is how often a backend shows that it lives: in the region's header, or with a Progress message.
const beatEvery = 250 * time.Millisecond

// runState is the run that goes on. The numbers in it come from the backend: good for a progress bar and for messages.
type runState struct {
	prog       atomic.Pointer[program.Program] // nil: no run
	generation atomic.Int64
	steps      atomic.Int64 // started, where there is no region
	beats      atomic.Int64 // messages received, where there is no region
}

func (r *runState) begin(p *program.Program, generation int64) {
	r.steps.Store(0)
	r.beats.Store(0)
	r.generation.Store(generation)
	r.prog.Store(p)
}

// end also disarms the watch for calls that bring no messages.
func (r *runState) end() {
	r.prog.Store(nil)
	r.beats.Store(0)
}

// Progress is how many steps of the current run have started, and of how many; 0, 0 between runs.
func (s *Session) Progress() (started, total int) {
	p := s.running.prog.Load()
	if p == nil {
		return 0, 0
	}
	n := s.running.steps.Load()
	if s.region != nil {
		n = 0
		if s.region.load(wordGeneration) == s.running.generation.Load() {
			n = s.region.load(wordSteps)
		}
	}
	return int(max(0, min(n, int64(len(p.Steps))))), len(p.Steps)
}

// stepOf is the step that started last; nil where none has, or it is not known.
func (s *Session) stepOf(p *program.Program) *StepError {
	started, total := s.Progress()
	if started == 0 {
		return nil
	}
	n := p.Graph.Nodes[p.Steps[started-1].Node]
	return &StepError{Step: started, Steps: total, Op: n.Op.Name, Name: n.Label()}
}

// sampleEvery is how often signs of life are looked for. A stall is a number of samples, not a span of time: the host
// itself may have been stopped, with a backend that had no chance either.
const sampleEvery = 100 * time.Millisecond

// watch ends the backend when it has shown signs of life, and then none for the time allowed. Backends that never show
// any are bounded by the deadlines alone. The function returned stops watching.
//
// A call that is over before the first sample costs a timer and no goroutine: waking a thread for one takes longer than a short run.
func (s *Session) watch() (stop func()) {
	w := &lifeWatch{s: s, last: s.beat()}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(sampleEvery, w.sample)
	return w.stop
}

// lifeWatch looks for signs of life during one call.
type lifeWatch struct {
	s *Session

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
	last    int64 // beat
	same    int   // samples since it changed
}

func (w *lifeWatch) sample() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped || w.s.dead.Err() != nil {
		return
	}
	b := w.s.beat()
	if w.same++; b != w.last {
		w.last, w.same = b, 0
	}
	if stall := w.s.opts.Timeouts.Stall; b != 0 && time.Duration(w.same)*sampleEvery >= stall {
		w.s.fail(lost(ErrStopped, w.s.name, "showed no sign of life for %v", stall))
		return
	}
	w.timer.Reset(sampleEvery)
}

func (w *lifeWatch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.timer.Stop()
}

// beat is a number that changes while the backend lives; 0: not known.
func (s *Session) beat() int64 {
	if s.region != nil {
		return s.region.load(wordBeat)
	}
	return s.running.beats.Load()
}

// describeRun completes the reason of a backend's end.
func describeRun(p *program.Program, step *StepError) string {
	if step == nil {
		return fmt.Sprintf("before the first step of %s", p.Method)
	}
	return fmt.Sprintf("during %v of %s", step, p.Method)
}
