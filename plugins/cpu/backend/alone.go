package backend

import (
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

// aloneWork is the most work of a run that one thread does alone, where a second could help: arithmetic operations, and
// bytes of operands and results. One thread takes 150 to 300 us for it. With a second thread such a run is hardly
// faster, and slower if the threads and the host, which waits for the result, share a processor: a handover takes about
// 1 us if the other thread spins, and 50 us if it sleeps. With more threads, of which each step may use all, runs with
// less work gain: aloneWork is divided among the others, but not below aloneLeast. Both are variables for tests, whose
// programs are small.
var aloneWork, aloneLeast int64 = 1 << 22, 1 << 20

// stepWork is what a step counts for, besides its arithmetic and its bytes.
const stepWork = 1 << 12

// isBrief reports whether one thread does a run at these sizes alone. Most of the time is spent on the first steps of a
// large program, which exceed that.
func (x *executable) isBrief() bool {
	var work int64
	most := max(aloneLeast, aloneWork/int64(x.pool.Threads()-1))
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
			return false
		}
		if empty {
			continue
		}
		if work += x.runner.Call(i).FLOPs(); work > most {
			return false
		}
	}
	return true
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
	switch {
	case x.inner: // the run that contains the loop has chosen
	case x.pool.Threads() > 1 && x.isBrief():
		x.pool.Use(1)
	default:
		x.pool.Use(0)
	}
}
