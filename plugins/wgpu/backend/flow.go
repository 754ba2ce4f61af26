//go:build cgo && (darwin || amd64)

package backend

import (
	"context"
	"time"

	"github.com/rajveermalviya/go-webgpu/wgpu"
)

// A plain run that takes the device long is cut into submissions, which are as long as a cancelled run may go on, since what
// the device has been given cannot be taken back. The first ones are shorter, so that the device begins while the host records
// the rest. A short run is one submission: between two of them the device stands still for a moment.
const (
	firstDispatches = 8
	submissionTime  = 25 * time.Millisecond // of the device, by the pace of the run before
	maxFlying       = 2                     // submissions that the device has at a time: one that runs, and the next
)

// flow is how far a run has come on its way to the device and back.
type flow struct {
	dispatches int // recorded since the last submission
	size       int // dispatches of the submission being recorded
	limit      int // of any submission

	first, next int // steps that are recorded and not submitted
	flying      int // submissions that have not been seen to end
	reached     int // steps before this one have ended
	told        int // what Progress was told last
}

// begin sets the sizes of submissions for so many dispatches, by the time of one in the run before; 0: there was none.
func (f *flow) begin(dispatches int, pace time.Duration) {
	f.limit = firstDispatches
	if pace > 0 {
		f.limit = max(1, int(submissionTime/pace))
	}
	f.size = f.limit
	if dispatches > f.limit {
		f.size = min(firstDispatches, f.limit)
	}
}

func (f *flow) full() bool { return f.dispatches >= f.size }

// hand gives what is recorded to the device, once that has room for it. A cancelled run gets no further.
func (c *recording) hand() error {
	f := &c.flow
	for wait := newPatience(); f.flying >= maxFlying && !c.x.g.poll(); wait.pause() {
		if c.ctx.Err() != nil {
			return context.Cause(c.ctx)
		}
	}
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	if err := c.submit(); err != nil {
		return err
	}
	reached := f.next
	f.flying++
	c.x.g.queue.OnSubmittedWorkDone(func(wgpu.QueueWorkDoneStatus) {
		f.flying--
		f.reached = reached
	})
	f.size, f.dispatches = min(2*f.size, f.limit), 0
	c.tell() // submitting, too, lets the library notice what has ended
	return nil
}

// tell passes the progress on.
func (c *recording) tell() {
	if f := &c.flow; f.reached > f.told {
		f.told = f.reached
		if c.r.Progress != nil {
			c.r.Progress(f.reached)
		}
	}
}

// settle ends a run: what was recorded only is forgotten, and what the device was given is waited for, since the next run
// uses the same memory.
func (c *recording) settle() {
	c.drop()
	for wait := newPatience(); c.flow.flying > 0 && !c.x.g.poll(); {
		wait.pause()
	}
}
