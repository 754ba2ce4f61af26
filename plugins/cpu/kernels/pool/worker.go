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
	holdTime = 20                    // times as long between the steps of a program; see Hold
	// After this time without work, a worker that spins yields to other threads. After the last step of a run it would
	// otherwise keep the host, which waits for the result, from its processor.
	yieldAfter = 10 * time.Microsecond
)

// poll spins while the state of a worker is the given one. It ends after spinTime, which begins anew for a worker without
// work when Hold ends.
func (p *Pool) poll(w *worker, while int32) {
	if p.spinTime == 0 {
		return
	}
	began := time.Now()
	for spent, held := time.Duration(0), time.Duration(0); spent-held < p.spinTime; spent = time.Since(began) {
		for range 64 {
			if w.state.Load() != while {
				return
			}
		}
		if while != idle {
			continue
		}
		if spent < holdTime*p.spinTime && p.held.Load() {
			held = spent
		}
		if spent > yieldAfter {
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
	p.poll(w, running)
	if w.state.CompareAndSwap(running, awaited) {
		<-p.ended
	}
}

// serve runs worker i > 0 in its goroutine, until Close.
func (p *Pool) serve(i int) {
	w := &p.workers[i]
	for {
		p.poll(w, idle)
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
