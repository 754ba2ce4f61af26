package pool

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlx-go/rlx/core/code"
)

func TestPoolRunsEveryTaskOnce(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7} {
		p := newPool(t, n, "")
		for _, tasks := range []int{0, 1, 2, 5, 1000} {
			count := make([]atomic.Int32, tasks)
			p.Run(tasks, func(task, worker int) {
				if worker < 0 || worker >= n {
					t.Errorf("worker is %d, want 0 to %d", worker, n-1)
				}
				count[task].Add(1)
			})
			for i := range count {
				if c := count[i].Load(); c != 1 {
					t.Fatalf("task %d of %d ran %d times", i, tasks, c)
				}
			}
		}
	}
}

// TestPoolShares checks that share runs every item once, in pieces that begin at multiples of the grain, and that other
// workers take items from a slow worker.
func TestPoolShares(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7} {
		p := newPool(t, n, "")
		for _, c := range []struct{ items, grain int }{{1, 1}, {5, 8}, {100, 1}, {1000, 7}, {100_000, 32}} {
			count := make([]atomic.Int32, c.items)
			var others atomic.Int64 // items of the other workers
			p.Split(c.items, c.grain, func(lo, hi, worker int) {
				if lo%c.grain != 0 || hi%c.grain != 0 && hi != c.items {
					t.Errorf("%d items, grain %d: a piece from %d to %d", c.items, c.grain, lo, hi)
				}
				for i := lo; i < hi; i++ {
					count[i].Add(1)
				}
				if worker > 0 {
					others.Add(int64(hi - lo))
				} else if n > 1 {
					rest := int64(c.items - (hi - lo))
					for others.Load() < rest { // for ever, if the others do not take what worker 0 has not begun
						runtime.Gosched()
					}
				}
			})
			for i := range count {
				if got := count[i].Load(); got != 1 {
					t.Fatalf("%d threads: item %d of %d ran %d times", n, i, c.items, got)
				}
			}
		}
	}
}

// TestPoolUse checks that only the workers that take part run tasks, and that all tasks run.
func TestPoolUse(t *testing.T) {
	p := newPool(t, 5, "")
	for _, c := range []struct{ use, active int }{{1, 1}, {3, 3}, {9, 5}, {1, 1}, {0, 5}} {
		if p.Use(c.use); p.Active() != c.active {
			t.Errorf("%d workers are active after Use(%d), want %d", p.Active(), c.use, c.active)
		}
		for _, tasks := range []int{1, 4, 1000} {
			var ran atomic.Int64
			p.Run(tasks, func(task, worker int) {
				if worker >= c.active {
					t.Errorf("worker %d ran a task, want 0 to %d", worker, c.active-1)
				}
				ran.Add(1)
			})
			if got := int(ran.Load()); got != tasks {
				t.Errorf("%d of %d tasks ran", got, tasks)
			}
		}
	}
}

// TestPoolBegin checks that all tasks run whether or not the pool knows that a run takes place, and whether its workers
// are awake, asleep or about to wake up.
func TestPoolBegin(t *testing.T) {
	for _, n := range []int{1, 2, 5} {
		p, rng := newPool(t, n, ""), rand.New(rand.NewPCG(1, uint64(n)))
		for range 300 {
			switch rng.IntN(6) {
			case 0, 1:
				p.Begin()
			case 2, 3:
				p.End()
			case 4:
				p.Use(rng.IntN(n + 1))
			case 5:
				time.Sleep(time.Duration(rng.IntN(300)) * time.Microsecond)
			}
			var ran atomic.Int64
			tasks := rng.IntN(20)
			p.Run(tasks, func(_, _ int) { ran.Add(1) })
			if got := int(ran.Load()); got != tasks {
				t.Fatalf("%d of %d tasks ran on %d threads", got, tasks, n)
			}
		}
	}
}

func TestPoolPassesPanicsOn(t *testing.T) {
	for _, n := range []int{1, 3} {
		p := newPool(t, n, "")
		func() {
			defer func() {
				if v := recover(); v == nil || n > 1 && !strings.Contains(v.(string), "at 5") {
					t.Errorf("Run panicked with %v, want a panic of the task", v)
				}
			}()
			p.Run(100, func(task, _ int) {
				if task == 5 {
					panic("at 5")
				}
			})
		}()
		ran := 0
		p.Run(1, func(_, _ int) { ran++ })
		if ran != 1 {
			t.Error("the pool is dead after a panic")
		}
	}
}

func TestPoolAllocatesNothing(t *testing.T) {
	p := newPool(t, 2, "")
	var sum atomic.Int64
	f := func(task, worker int) {
		p.Scratch(worker).Floats(1000)
		sum.Add(int64(task))
	}
	p.Run(10, f)
	p.Run(10, f)
	if n := testing.AllocsPerRun(100, func() { p.Run(10, f) }); n > 0 {
		t.Errorf("%v allocations per run, want 0", n)
	}
}

func TestPoolRefusesNesting(t *testing.T) {
	p := newPool(t, 1, "")
	defer func() {
		if recover() == nil {
			t.Error("a nested run was accepted")
		}
	}()
	p.Run(1, func(_, _ int) { p.Run(1, func(_, _ int) {}) })
}

func TestUnknownFeatures(t *testing.T) {
	_, err := NewFor(1, "avx9000")
	if !errors.Is(err, code.Features) || !strings.Contains(err.Error(), "generic") {
		t.Errorf("features avx9000: error %v; want code.Features that lists generic", err)
	}
}

// TestPoolGaps pauses for different times between runs, so that workers are parked, or about to park, when the next run
// begins.
func TestPoolGaps(t *testing.T) {
	for _, n := range []int{2, 3, 7} { // with more threads than processors, as 7 on some machines, workers do not spin
		p := newPool(t, n, "")
		r := rng(1)
		for i := range 3000 {
			var ran atomic.Int64
			tasks := 1 + r.IntN(2*n)
			p.Run(tasks, func(_, _ int) {
				// tasks of different lengths, so that workers end before and after the caller begins to wait
				for range i % 4 * 1000 {
					ran.Load()
				}
				ran.Add(1)
			})
			if got := int(ran.Load()); got != tasks {
				t.Fatalf("%d of %d tasks had run at the end of run %d", got, tasks, i)
			}
			for start, gap := time.Now(),
				[]time.Duration{0, spinTime / 2, spinTime, 2 * spinTime}[r.IntN(4)]; time.Since(start) < gap; {
			}
		}
	}
}

func newPool(t testing.TB, n int, features string) *Pool {
	t.Helper()
	p, err := NewFor(n, features)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func rng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }
