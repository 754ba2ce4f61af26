package kernels

import (
	"runtime"
	"sync/atomic"
	"time"
)

// worker is one thread of a pool with its scratch memory. Between runs it spins for a while before it sleeps, and its
// caller spins until it ends likewise: waking a thread takes longer than many steps do.
type worker struct {
	state   atomic.Int32
	wake    chan struct{} // a token for a worker that is parked
	scratch scratch
	_       [64]byte // keeps two workers' bookkeeping out of one cache line
}

// The states of a worker.
const (
	idle    = iota // looks at its state, or is about to
	parked         // waits for a token
	called         // there is work; it has not begun
	running        // at work
	awaited        // at work, and its caller waits to be told the end
)

// spinTime is how long a thread polls before it sleeps.
const spinTime = 50 * time.Microsecond

// poll looks at the state for a while, until it is not one to wait in.
func (w *worker) poll(while int32, limit time.Duration) {
	if limit == 0 {
		return
	}
	for start := time.Now(); time.Since(start) < limit; {
		for range 64 {
			if w.state.Load() != while {
				return
			}
		}
	}
}

// call tells the worker that there is work.
func (w *worker) call() {
	if w.state.Swap(called) == parked {
		w.wake <- struct{}{}
	}
}

// end returns when the worker is not at work. If it has not begun it will not.
func (w *worker) end(p *Pool) {
	if w.state.CompareAndSwap(called, idle) {
		return
	}
	w.poll(running, p.spinTime)
	if w.state.CompareAndSwap(running, awaited) {
		<-p.ended
	}
}

// serve is the life of worker i > 0.
func (p *Pool) serve(i int) {
	w := &p.workers[i]
	for {
		w.poll(idle, p.spinTime)
		if w.state.CompareAndSwap(idle, parked) {
			if _, ok := <-w.wake; !ok {
				return
			}
		}
		if w.state.CompareAndSwap(called, running) {
			p.take(i)
			if w.state.Swap(idle) == awaited {
				p.ended <- struct{}{}
			}
		}
	}
}

// spinTimeFor is 0 where a thread that polls could keep another from its processor.
func spinTimeFor(threads int) time.Duration {
	if threads > runtime.GOMAXPROCS(0) {
		return 0
	}
	return spinTime
}
