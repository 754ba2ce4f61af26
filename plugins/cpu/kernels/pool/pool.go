// Package pool has the threads of the CPU backend and their scratch memory. A kernel divides its work with Split, which
// gives each thread a range of it and returns when all are done. The results must not depend on how the work is
// divided.
package pool

import (
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// Pool is a set of worker goroutines with scratch memory. The goroutine that calls Run is worker 0. The others spin for
// a while after a run and then sleep. A Pool serves one caller at a time.
type Pool struct {
	Set     *isa.Set // the instruction set in use
	workers []worker
	active  int     // how many workers take part in a run
	Shared  Scratch // memory that all workers of one kernel read, such as packed weights

	PackedLimit int // maximum number of floats of a matrix that are packed at a time
	StreamFrom  int // bytes; see the constant

	busy        atomic.Bool
	work        Part
	items, size int // items of the run, and of each task
	oneIn       int // see taskRange.first
	panic       atomic.Pointer[workerPanic]

	spinTime time.Duration // how long workers and the caller of Run spin before they sleep
	held     atomic.Bool   // see Hold
	ended    chan struct{} // a worker sends when it ends, if the caller sleeps

	Bad  atomic.Int64 // how workers report bad values: kernels set it to 0 before a run and read it after
	kept []any        // see keep
}

type workerPanic struct {
	value any
	stack []byte
}

// New returns a pool of n threads with the best instruction set of this processor, or the one that RLX_CPU_FEATURES
// names. n <= 0 means one thread for each processor that this process may use (affinity, cgroup quota, GOMAXPROCS).
func New(n int) (*Pool, error) { return NewFor(n, "") }

// NewFor is New with the name of an instruction set, one of Features(). "" chooses as New does.
func NewFor(n int, features string) (*Pool, error) {
	set, err := isa.Choose(features)
	if err != nil {
		return nil, err
	}
	if n <= 0 {
		n = runtime.GOMAXPROCS(0) // since Go 1.25 the default honours affinity and the cgroup's quota
	}
	p := &Pool{Set: set, workers: make([]worker, n), active: n, PackedLimit: 8 << 20, StreamFrom: streamFrom,
		spinTime: spinTimeFor(n),
		ended:    make(chan struct{})}
	for i := range p.workers {
		w := &p.workers[i]
		w.scratch = &w.own
		w.own.At, w.own.Place = make([]int, 0, lineInts), make([]int, 0, lineInts)
		if n > 1 {
			w.alone = Pool{Set: set, workers: []worker{{scratch: w.scratch}}, active: 1}
		}
	}
	for i := 1; i < n; i++ {
		p.workers[i].wake = make(chan struct{}, 1)
		go p.serve(i)
	}
	return p, nil
}

// Alone returns a pool of one thread, which has the scratch memory of a worker. A task of that worker may run kernels
// with it. So each worker computes a part of a result from beginning to end, and finds in its caches what it has stored
// in the steps before. The pool itself must have several threads.
func (p *Pool) Alone(worker int) *Pool {
	a := &p.workers[worker].alone
	a.PackedLimit, a.StreamFrom = p.PackedLimit, p.StreamFrom
	return a
}

// Threads returns the number of workers, including the caller of Run.
func (p *Pool) Threads() int { return len(p.workers) }

// Use sets how many workers take part in the next runs, the caller of Run included: all if n is 0. Kernels divide their
// work as before. So their results, and the memory that they need, stay the same.
func (p *Pool) Use(n int) {
	p.active = len(p.workers)
	if n > 0 {
		p.active = min(n, p.active)
	}
}

// Hold tells the workers that more runs follow soon, until it is called with false. They then spin longer before they
// sleep. Otherwise they would sleep during a step that one thread does alone, and miss the next one, since waking takes
// 50 us.
func (p *Pool) Hold(on bool) { p.held.Store(on && p.active > 1) }

// Active returns how many workers take part.
func (p *Pool) Active() int { return p.active }

// Features returns the name of the instruction set in use.
func (p *Pool) Features() string { return p.Set.Name }

// Close stops the workers. The pool must not be used afterwards.
func (p *Pool) Close() {
	for i := 1; i < len(p.workers); i++ {
		close(p.workers[i].wake)
	}
}

// Run calls f once for each task in [0, tasks), on any worker and in any order, and returns when all are done. worker
// is in [0, Threads()). If f panics, the run ends and Run panics. Run starts no goroutines and allocates nothing.
func (p *Pool) Run(tasks int, f func(task, worker int)) { p.Each(tasks, 1, taskFunc(f)) }

type taskFunc func(task, worker int)

func (f taskFunc) Do(lo, hi, worker int) {
	for t := lo; t < hi; t++ {
		f(t, worker)
	}
}

// Each runs work over items [0, items) in tasks of size items.
func (p *Pool) Each(items, size int, work Part) { p.run(items, size, math.MaxInt32, work) }

// run runs work over items [0, items) in tasks of size items. A worker runs one in oneIn of its remaining tasks at a
// time, and at least one.
func (p *Pool) run(items, size, oneIn int, work Part) {
	if items <= 0 {
		return
	}
	size = max(size, items>>31+1) // so that taskRange can count the tasks
	tasks := (items + size - 1) / size
	if !p.busy.CompareAndSwap(false, true) {
		panic("BUG: kernels.Pool.Run called while the pool is running")
	}
	defer p.busy.Store(false)
	p.work, p.items, p.size, p.oneIn = work, items, size, oneIn
	helpers := min(p.active, tasks) - 1
	if helpers == 0 {
		p.runAlone(tasks)
		p.work = nil
		return
	}
	for i := range p.workers {
		p.workers[i].tasks.set(min(i, helpers+1)*tasks/(helpers+1), min(i+1, helpers+1)*tasks/(helpers+1))
	}
	for i := 1; i <= helpers; i++ {
		p.workers[i].call()
	}
	p.take(0)
	for i := 1; i <= helpers; i++ {
		p.workers[i].end(p)
	}
	p.work = nil
	if w := p.panic.Swap(nil); w != nil {
		panic(fmt.Sprintf("%v\n\nin a worker of the pool:\n%s", w.value, w.stack))
	}
}

// runAlone runs all tasks on worker 0, in the same pieces as takeOwn. The others have none and take none.
func (p *Pool) runAlone(tasks int) {
	for lo := 0; lo < tasks; {
		hi := lo + max(1, (tasks-lo)/p.oneIn)
		p.Do(lo, hi, 0)
		lo = hi
	}
}

// take runs worker i's own tasks, and then tasks that other workers have not started.
func (p *Pool) take(i int) {
	defer func() {
		if v := recover(); v != nil {
			for j := range p.workers {
				p.workers[j].tasks.set(0, 0) // the others stop at their next task
			}
			p.panic.CompareAndSwap(nil, &workerPanic{v, debug.Stack()})
		}
	}()
	p.takeOwn(i)
	for j := 1; j < len(p.workers); j++ {
		other := &p.workers[(i+j)%len(p.workers)].tasks
		for lo, hi := other.last(p.oneIn); lo < hi; lo, hi = other.last(p.oneIn) {
			p.Do(lo, hi, i)
		}
	}
}

// takeOwn runs worker i's own tasks.
func (p *Pool) takeOwn(i int) {
	own := &p.workers[i].tasks
	for lo, hi := own.first(p.oneIn); lo < hi; lo, hi = own.first(p.oneIn) {
		p.Do(lo, hi, i)
	}
}

// Do runs tasks [lo, hi).
func (p *Pool) Do(lo, hi, worker int) {
	p.workers[worker].scratch.Reset()
	p.work.Do(lo*p.size, min(p.items, hi*p.size), worker)
}

// Scratch allocates slices from one block that it keeps between uses. After the first few tasks the block is large
// enough, and nothing is allocated any more.
type Scratch struct {
	block []float32
	used  int // floats of block that are in use
	need  int // floats that were asked for, in the block or not
	most  int // the largest need so far, since release lowers need

	counts bool // see NewCounter

	bytes                []uint8 // block, used and need for bytes
	usedBytes, needBytes int

	Index     [16]int32 // for kernels that gather
	At, Place []int     // for kernels that keep places in memory between tasks
	own       []any
}

// Floats returns n floats with arbitrary contents, aligned to 64 bytes if the block is. They stay valid until reset.
func (s *Scratch) Floats(n int) []float32 {
	n16 := (n + 15) &^ 15
	s.need += n16
	if s.counts {
		return nil
	}
	if s.used+n16 > len(s.block) {
		return make([]float32, n) // reset grows the block
	}
	out := s.block[s.used : s.used+n : s.used+n]
	s.used += n16
	return out
}

// Octets is floats for bytes, without the alignment.
func (s *Scratch) Octets(n int) []uint8 {
	s.needBytes += n
	if s.usedBytes+n > len(s.bytes) {
		return make([]uint8, n)
	}
	out := s.bytes[s.usedBytes : s.usedBytes+n : s.usedBytes+n]
	s.usedBytes += n
	return out
}

// Mark says which memory of a scratch is in use.
type Mark struct{ used, need int }

// Mark returns the amount in use, for release.
func (s *Scratch) Mark() Mark { return Mark{s.used, s.need} }

// Release frees what floats has returned since mark.
func (s *Scratch) Release(m Mark) {
	s.most = max(s.most, s.need)
	s.used, s.need = m.used, m.need
}

// NewCounter returns a scratch whose floats returns nil and only counts; see counted.
func NewCounter() Scratch { return Scratch{counts: true} }

// Counted returns how many bytes floats was asked for.
func (s *Scratch) Counted() int64 { return 4 * int64(s.need) }

// Own returns the scratch's value of type A, as its last user left it.
func Own[A any](s *Scratch) *A { return kept[A](&s.own) }

// kept returns the value of type *A, and moves it forward, so that those in use are found at once. A kernel of a small
// model runs for about as long as a look-up in ten maps.
func kept[A any](values *[]any) *A {
	for i, v := range *values {
		if a, ok := v.(*A); ok {
			if i > 0 {
				(*values)[i], (*values)[i-1] = (*values)[i-1], v
			}
			return a
		}
	}
	a := new(A)
	*values = append(*values, a)
	return a
}

func (s *Scratch) Reset() {
	if s.most = max(s.most, s.need); s.most > len(s.block) {
		s.block = make([]float32, s.most+s.most/4)
	}
	if s.needBytes > len(s.bytes) {
		s.bytes = make([]uint8, s.needBytes+s.needBytes/4)
	}
	s.used, s.need, s.most, s.usedBytes, s.needBytes = 0, 0, 0, 0, 0
}

// Scratch returns the memory of a worker. Memory that is allocated from it is valid until the task ends.
func (p *Pool) Scratch(worker int) *Scratch { return p.workers[worker].scratch }

// Part is a kernel's loop body together with its arguments: Do runs items [lo, hi). It takes the place of a closure,
// which would be allocated at each call. The pool keeps one value of each type; see Keep.
type Part interface{ Do(lo, hi, worker int) }

// Keep returns the pool's value of type A, as its last user left it.
func Keep[A any](p *Pool) *A { return kept[A](&p.kept) }

// Split divides n items among the workers and runs args.Do on pieces of at least grain items. The pieces depend on the
// number of threads and on time, so the result of an item must not depend on the piece that it is in.
func Split[A any, P interface {
	*A
	Part
}](p *Pool, n, grain int, args A) {
	a := Keep[A](p)
	*a = args
	p.Share(n, grain, P(a))
}

// shareOneIn: a worker takes a quarter of its remaining items at a time. Long pieces read memory in long streams. The
// last pieces are short, so all workers end at about the same time.
const shareOneIn = 4

// Share is split for a part that is already kept. If there are more pieces than workers, each worker has as many: of
// three pieces one would take two, and with two images also a part of the one that another worker has computed.
func (p *Pool) Share(n, grain int, work Part) {
	grain = max(grain, 1)
	if pieces, workers := CeilDiv(n, grain), len(p.workers); pieces > workers && workers > 1 {
		grain = CeilDiv(n, CeilDiv(pieces, workers)*workers)
	}
	p.run(n, grain, shareOneIn, work)
}

// Split is share for a closure, which is allocated at each call.
func (p *Pool) Split(n, grain int, f func(lo, hi, worker int)) { p.Share(n, grain, rangeFunc(f)) }

type rangeFunc func(lo, hi, worker int)

func (f rangeFunc) Do(lo, hi, worker int) { f(lo, hi, worker) }

// lineInts is a first capacity of slices that workers append to. Smaller ones would share cache lines.
const lineInts = 64

const Grain = 1 << 14 // fewer elements are not worth a task

// streamFrom is the default of Pool.StreamFrom. If operands and result take at least this many bytes, elementwise
// kernels store the result with non-temporal stores, which bypass the caches. An ordinary store first reads its cache
// line from memory, a third or more of the traffic. But the next kernel must read such a result from memory, so it pays
// only if most of the result would have been evicted anyway. On a processor with 32 MB of cache, kernels of 100 MB took
// a third less time, and kernels of 50 MB a third more.
const streamFrom = 96 << 20

// RowGrain returns the least number of rows of n elements that are worth a task.
func RowGrain(n int) int { return 1 + Grain/max(1, n) }

// CeilDiv is a/b, rounded up.
func CeilDiv(a, b int) int { return (a + b - 1) / b }

// Sized returns a slice of n elements with arbitrary contents, in the memory of s if it suffices.
func Sized[E any](s []E, n int) []E {
	if cap(s) < n {
		return make([]E, n)
	}
	return s[:n]
}
