package gpu

import (
	"context"
	"time"
)

// A long run is divided into submissions. A submission cannot be withdrawn, so its length bounds how long a cancelled run goes
// on. A short run is one submission, because the device is idle for a moment between two.
const (
	firstDispatches = 8
	submissionTime  = 25 * time.Millisecond // of the device, estimated from the run before
	maxInFlight     = 2                     // submissions at a time: one that runs, and the next
)

// flow is the progress of a run: what is recorded, submitted and done.
type flow struct {
	dispatches int // recorded since the last submission
	size       int // dispatches of a submission

	first, next int // steps that are recorded and not submitted
	inFlight    int // submissions not known to have ended
	reached     int // steps before this one have ended
	reported    int // the last argument of Progress
}

// begin sets the size of submissions for a number of dispatches. pace is the time of a dispatch in the run before, 0 if there was
// none.
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

// flush submits what is recorded, as soon as fewer than maxInFlight submissions are under way.
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

// awaitSlot waits until fewer than maxInFlight submissions are under way. In a cancelled run it returns an error.
func (c *recording) awaitSlot() error {
	f := &c.flow
	for wait := NewPatience(time.Time{}); f.inFlight >= maxInFlight; wait.Pause() {
		if idle, err := c.x.g.poll(); err != nil {
			return err
		} else if idle {
			break
		}
		if c.ctx.Err() != nil {
			return context.Cause(c.ctx)
		}
	}
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	return nil
}

// track registers the last submission: when it has ended, all steps before reached have.
func (c *recording) track(reached int) {
	f := &c.flow
	f.inFlight++
	c.x.g.dev.OnDone(func() {
		f.inFlight--
		f.reached = reached
	})
	c.report() // in Submit, too, the device notices what has ended
}

// report calls Progress, except for the last step, which counts when the run has ended.
func (c *recording) report() {
	if f := &c.flow; f.reached > f.reported && f.reached < len(c.x.p.Steps) {
		f.reported = f.reached
		if c.r.Progress != nil {
			c.r.Progress(f.reached)
		}
	}
}

// settle ends a run. It drops what was recorded and not submitted, and waits for what was submitted, since the next run uses the
// same memory.
func (c *recording) settle() {
	c.drop()
	for wait := NewPatience(time.Time{}); c.flow.inFlight > 0; wait.Pause() {
		if idle, err := c.x.g.poll(); idle || err != nil { // what failed has ended, too
			return
		}
	}
}
