package pool

import (
	"runtime"
	"sync/atomic"
	"time"
)

// worker is one thread of a pool. After a run it spins for a while before it parks, and the caller of Run spins before
// it sleeps, because waking a thread takes longer than many kernels run.
type worker struct {
	state   atomic.Int32
	tasks   taskRange     // its tasks of a run that are not started
	wake    chan struct{} // wakes the worker when it is parked
	scratch *Scratch
	own     Scratch
	alone   Pool     // see Alone
	_       [64]byte // so that no two workers share a cache line
}

// taskRange holds a worker's tasks that are not started: task first in the low 32 bits, end in the high ones. Each run
// divides its tasks among the workers in the same way, so that a worker finds data of earlier runs in its caches;
// fetching a cache line that another core has written takes about as long as fetching it from memory. A worker takes
// its tasks from the front. Others steal from the back, so that both walk through memory in order for as long as
// possible.
type taskRange struct{ bounds atomic.Uint64 }

func (r *taskRange) set(first, end int) { r.bounds.Store(uint64(end)<<32 | uint64(first)) }

// first removes tasks from the front: one of every oneIn that are left, and at least one. If no task is left, lo is hi.
func (r *taskRange) first(oneIn int) (lo, hi int) {
	for {
		b := r.bounds.Load()
		first, end := uint32(b), uint32(b>>32)
		if first >= end {
			return 0, 0
		}
		n := max(1, (end-first)/uint32(oneIn))
		if r.bounds.CompareAndSwap(b, b+uint64(n)) {
			return int(first), int(first + n)
		}
	}
}

// last is first for tasks from the back.
func (r *taskRange) last(oneIn int) (lo, hi int) {
	for {
		b := r.bounds.Load()
		first, end := uint32(b), uint32(b>>32)
		if first >= end {
			return 0, 0
		}
		n := max(1, (end-first)/uint32(oneIn))
		if r.bounds.CompareAndSwap(b, b-uint64(n)<<32) {
			return int(end - n), int(end)
		}
	}
}

// The states of a worker.
const (
	idle    = iota // spins, or is about to
	parked         // sleeps until wake
	called         // has work that it has not begun
	running        // runs tasks
	awaited        // runs tasks while the caller of Run sleeps until ended
)

const (
	spinTime = 50 * time.Microsecond // a thread spins this long before it sleeps
	// After this time without work, a spinning thread yields to other threads. Otherwise it would occupy the processor
	// that the host, which waits for the result, needs after the last step of a run.
	yieldAfter = 10 * time.Microsecond
	// Between Begin and End, workers without work spin for at most this long. Waking a thread takes longer than many
	// of the steps that only one thread runs.
	beginSpin = 20 * time.Millisecond
	// After End, because a caller in a loop begins the next run soon.
	endSpin = 200 * time.Microsecond
	// The caller spins this long for the other workers to end, since they do nothing but this run.
	awaitSpin = time.Millisecond
)

// Begin tells the workers that take part that a run begins, which calls Run again and again until End. They wake up
// while the caller prepares its first step.
func (p *Pool) Begin() {
	if p.active < 2 || p.spinTime == 0 {
		return
	}
	p.spinUntil.Store(int64(time.Since(p.made) + beginSpin))
	for i := 1; i < p.active; i++ {
		if w := &p.workers[i]; w.state.CompareAndSwap(parked, idle) {
			w.wake <- struct{}{}
		}
	}
}

// End tells the workers that the run has ended.
func (p *Pool) End() {
	if p.active > 1 && p.spinTime > 0 { // otherwise workers that are awake would never sleep
		p.spinUntil.Store(int64(time.Since(p.made) + endSpin))
	}
}

// poll spins while the state is the given one, for at most limit, and until spinUntil.
func (w *worker) poll(while int32, limit time.Duration, spinUntil *atomic.Int64, made time.Time) {
	if limit == 0 {
		return
	}
	for start := time.Since(made); ; {
		for range 64 {
			if w.state.Load() != while {
				return
			}
		}
		now := time.Since(made)
		if now-start >= limit && (spinUntil == nil || int64(now) >= spinUntil.Load()) {
			return
		}
		if now-start > yieldAfter {
			yieldThread()
		}
	}
}

// call tells the worker that there is work, and wakes it if it is parked.
func (w *worker) call() {
	if w.state.Swap(called) == parked {
		w.wake <- struct{}{}
	}
}

// end waits until the worker has finished. A worker that has not begun no longer has to: its tasks are done.
func (w *worker) end(p *Pool) {
	if w.state.CompareAndSwap(called, idle) {
		return
	}
	w.poll(running, min(awaitSpin, 20*p.spinTime), nil, p.made)
	if w.state.CompareAndSwap(running, awaited) {
		<-p.ended
	}
}

// serve runs worker i > 0 in its goroutine, until Close.
func (p *Pool) serve(i int) {
	w := &p.workers[i]
	for {
		w.poll(idle, p.spinTime, &p.spinUntil, p.made)
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

// spinTimeFor returns 0 if there are more threads than processors: a spinning thread could then keep another from
// running.
func spinTimeFor(threads int) time.Duration {
	if threads > runtime.GOMAXPROCS(0) {
		return 0
	}
	return spinTime
}
