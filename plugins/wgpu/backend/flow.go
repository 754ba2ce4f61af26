//go:build cgo && (darwin || amd64)

package backend

import (
	"context"
	"time"

	"github.com/rajveermalviya/go-webgpu/wgpu"
)

// A run that takes the device long is cut into submissions, which are as long as a cancelled run may go on, since what the
// device has been given cannot be taken back. A short run is one submission: between two of them the device stands still for
// a moment.
const (
	firstDispatches = 8
	submissionTime  = 25 * time.Millisecond // of the device, by the pace of the run before
	maxInFlight     = 2                     // submissions that the device has at a time: one that runs, and the next
)

// flow is how far a run has come on its way to the device and back.
type flow struct {
	dispatches int // recorded since the last submission
	size       int // dispatches of a submission

	first, next int // steps that are recorded and not submitted
	inFlight    int // submissions that have not been seen to end
	reached     int // steps before this one have ended
	told        int // what Progress was told last
}

// begin sets the size of submissions for so many dispatches, by the time of one in the run before; 0: there was none.
func (f *flow) begin(dispatches int, pace time.Duration) {
	f.size = firstDispatches
	if pace > 0 {
		f.size = max(1, int(submissionTime/pace))
	}
	if parts := (dispatches + f.size - 1) / f.size; parts > 0 {
		f.size = (dispatches + parts - 1) / parts
	}
}

func (f *flow) full() bool { return f.dispatches >= f.size }

// flush submits what is recorded, once the device takes another submission.
func (c *recording) flush() error {
	if err := c.awaitSlot(); err != nil {
		return err
	}
	if err := c.submit(); err != nil {
		return err
	}
	c.track(c.flow.next)
	c.flow.dispatches = 0
	return nil
}

// awaitSlot waits until the device takes another submission: at most maxInFlight are under way. A cancelled run gets no further.
func (c *recording) awaitSlot() error {
	f := &c.flow
	for wait := newPatience(time.Time{}); f.inFlight >= maxInFlight && !c.x.g.poll(); wait.pause() {
		if c.ctx.Err() != nil {
			return context.Cause(c.ctx)
		}
	}
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	return nil
}

// track follows a submission that was just made: when it has ended, the steps before reached have.
func (c *recording) track(reached int) {
	f := &c.flow
	f.inFlight++
	c.x.g.queue.OnSubmittedWorkDone(func(wgpu.QueueWorkDoneStatus) {
		f.inFlight--
		f.reached = reached
	})
	c.tell() // submitting, too, lets the library notice what has ended
}

// tell passes the progress on, but for the end, which is the whole run's.
func (c *recording) tell() {
	if f := &c.flow; f.reached > f.told && f.reached < len(c.x.p.Steps) {
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
	for wait := newPatience(time.Time{}); c.flow.inFlight > 0 && !c.x.g.poll(); {
		wait.pause()
	}
}
