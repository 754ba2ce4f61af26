package backend

import (
	"context"
	"slices"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

// aloneWork is the most work of a run that one thread does alone, where a second could help: arithmetic operations, and
// bytes of operands and results. One thread takes 150 to 300 us for it. With a second thread such a run is hardly
// faster, and slower if the threads and the host, which waits for the result, share a processor: a handover takes about
// 1 us if the other thread spins, and 50 us if it sleeps. With more threads, of which each step may use all, runs with
// less work gain: aloneWork is divided among the others, but not below aloneLeast. Both are variables for tests, whose
// programs are small. A trial corrects the choice where it may be wrong.
var aloneWork, aloneLeast int64 = 1 << 22, 1 << 20

// stepWork is what a step counts for, besides its arithmetic and its bytes.
const stepWork = 1 << 12

// Runs with less work than aloneWork/trialLess never gain from a second thread, and those with more than
// aloneWork*trialMore always do.
const (
	trialLess = 32
	trialMore = 8
)

// work returns the work of a run at these sizes. It ends once this exceeds most, which a large program does in its
// first steps.
func (x *executable) work(most int64) (work int64) {
	for i := range x.calls {
		c := &x.calls[i]
		work += stepWork
		empty := false // then there is no arithmetic, and a size by which its formula divides may be 0
		for _, list := range [][]tensor.Tensor{c.in, c.results} {
			for _, t := range list {
				work += int64(len(t.Data))
				empty = empty || t.DType != 0 && len(t.Data) == 0
			}
		}
		if a, ok := c.node.Attrs.(op.LoopAttrs); ok {
			work += stepWork * int64(a.Length) * x.loopSteps(i)
		}
		if work > most {
			break
		}
		if empty {
			continue
		}
		if work += x.runner.Call(i).FLOPs(); work > most {
			break
		}
	}
	return work
}

// loopSteps returns the number of steps of an iteration of the loop that is step i.
func (x *executable) loopSteps(i int) (n int64) {
	for _, l := range x.loops {
		if l.step == i {
			for _, p := range l.programs {
				n += int64(len(p.calls))
			}
		}
	}
	return n
}

// shareOrNot chooses whether the other threads take part in runs at these sizes.
func (x *executable) shareOrNot() {
	x.trial = trial{}
	if x.inner || x.pool.Threads() == 1 {
		return // the run that contains the loop has chosen
	}
	most := max(aloneLeast, aloneWork/int64(x.pool.Threads()-1))
	work := x.work(most * trialMore)
	x.trial = trial{alone: work <= most, on: work > most/trialLess && work <= most*trialMore}
	x.use(x.trial.alone)
}

// use lets the calling thread do the next run alone, or not.
func (x *executable) use(alone bool) {
	if alone {
		x.pool.Use(1)
	} else {
		x.pool.Use(0)
	}
}

// Run executes the steps in order.
func (x *executable) Run(ctx context.Context, r device.Run) (device.Stats, error) {
	if x.inner {
		return x.runner.Run(ctx, r)
	}
	if x.trial.on {
		x.use(x.trial.next())
		start := time.Now()
		defer func() { x.trial.ran(time.Since(start)) }()
	}
	x.pool.Begin()
	defer x.pool.End()
	return x.runner.Run(ctx, r)
}

// trial finds out whether one thread alone is faster than all, which depends on the time that a cache line takes from
// one core to another and on what else the processors do. It lets a few runs of the same sizes have one thread and a
// few have all, and compares their medians. The results of runs do not depend on it.
type trial struct {
	on    bool
	alone bool                            // the choice to begin with
	runs  int                             // since it began
	times [2][trialRuns - 1]time.Duration // of the choice to begin with, and of the other one
}

const (
	trialWarm  = 32      // runs before it, which pack weights, touch memory and fill caches
	trialRuns  = 8       // runs with each choice, of which the first is not counted: threads may sleep
	trialAgain = 1 << 12 // runs after which it is repeated
)

// next returns the choice for the next run.
func (t *trial) next() bool {
	switch k := t.runs - trialWarm; {
	case k < trialRuns:
		return t.alone
	case k < 2*trialRuns:
		return !t.alone
	}
	first, other := median(t.times[0]), median(t.times[1])
	return t.alone != (other < first-first/16)
}

// ran records the time of a run with the choice of next.
func (t *trial) ran(d time.Duration) {
	k := t.runs - trialWarm
	if k >= 0 && k < 2*trialRuns && k%trialRuns > 0 {
		t.times[k/trialRuns][k%trialRuns-1] = d
	}
	if t.runs++; t.runs == trialAgain {
		t.alone, t.runs = t.next(), trialWarm
	}
}

func median(times [trialRuns - 1]time.Duration) time.Duration {
	slices.Sort(times[:])
	return times[len(times)/2]
}
