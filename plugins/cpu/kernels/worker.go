package kernels

import (
	"runtime"
	"sync/atomic"
	"time"
)

// worker is one thread of a pool with its scratch memory. It spins for a while after a run before it parks, and its caller spins
// before it waits for the end, because waking a thread takes longer than many steps do.
type worker struct {
	state   atomic.Int32
	tasks   taskRange     // its share of a run
	wake    chan struct{} // a token for a worker that is parked
	scratch scratch
	_       [64]byte // keeps two workers' bookkeeping out of one cache line
}

// taskRange is the tasks of a worker that nobody has started. Shares are cut in the same way each time, so that a worker finds in its caches what it
// read and wrote in earlier runs: to fetch lines that another processor has written takes about as long as to fetch them from memory. The worker takes
// the first of its tasks, others the last, so that both walk through memory in order for as long as possible.
type taskRange struct{ bounds atomic.Uint64 } // the first one, and in the upper half the one after the last

func (r *taskRange) set(first, end int) { r.bounds.Store(uint64(end)<<32 | uint64(first)) }

// first removes the first task; it returns false if there is none.
func (r *taskRange) first() (task int, ok bool) {
	for {
		b := r.bounds.Load()
		first, end := uint32(b), uint32(b>>32)
		if first >= end {
			return 0, false
		}
		if r.bounds.CompareAndSwap(b, b+1) {
			return int(first), true
		}
	}
}

// last removes the last task; it returns false if there is none.
func (r *taskRange) last() (task int, ok bool) {
	for {
		b := r.bounds.Load()
		first, end := uint32(b), uint32(b>>32)
		if first >= end {
			return 0, false
		}
		if r.bounds.CompareAndSwap(b, b-1<<32) {
			return int(end) - 1, true
		}
	}
}

// The states of a worker.
const (
	idle    = iota // polls its state, or is about to
	parked         // waits for a token
	called         // there is work that it has not begun
	running        // runs tasks
	awaited        // runs tasks, and its caller waits for ended
)

// spinTime is how long a thread polls before it sleeps.
const spinTime = 50 * time.Microsecond

// poll spins while the state stays the same, for at most limit.
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

// call gives the worker work, and wakes it if it is parked.
func (w *worker) call() {
	if w.state.Swap(called) == parked {
		w.wake <- struct{}{}
	}
}

// end waits until the worker has finished. A worker that has not begun by then does not begin.
func (w *worker) end(p *Pool) {
	if w.state.CompareAndSwap(called, idle) {
		return
	}
	w.poll(running, p.spinTime)
	if w.state.CompareAndSwap(running, awaited) {
		<-p.ended
	}
}

// serve is the goroutine of worker i > 0.
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

// spinTimeFor is 0 where a thread that spins could keep another off the processor.
func spinTimeFor(threads int) time.Duration {
	if threads > runtime.GOMAXPROCS(0) {
		return 0
	}
	return spinTime
}
