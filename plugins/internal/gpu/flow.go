package gpu

import (
	"context"
	"time"
)

// A long run is divided into several submissions. A submission cannot be withdrawn, so its length bounds how long a cancelled run goes on. The
// device idles for a moment between two, so a short run has only two: a small one, and the rest, which is submitted while the device works on the
// first. Submitting takes half a microsecond for each dispatch.
const (
	headDispatches  = 16 // of the first submission of a tape
	streamGrowth    = 4  // of the number of dispatches, from one submission to the next, while a run is recorded and submitted at the same time
	firstDispatches = 8
	submissionTime  = 25 * time.Millisecond // of a submission on the device, estimated from the previous run
	maxInFlight     = 2                     // submissions at a time: the one that runs, and the next
)

// flow tracks which steps of a run are recorded, submitted and done.
type flow struct {
	dispatches int // recorded since the last submission
	size       int // most dispatches of a submission
	head       int // dispatches of the next submission if they are fewer than size; 0: size
	growth     int // factor by which head grows with each submission; 0: only the first submission is shorter than size

	first, next int // steps [first, next) are recorded and not submitted
	inFlight    int // submissions that are not known to have ended
	reached     int // steps before this one have ended
	reported    int // the last argument of Progress
}

// begin sets the size of submissions for a number of dispatches. pace is the average time of a dispatch in the previous run, 0 if there was none.
func (f *flow) begin(dispatches int, pace time.Duration) {
	f.size = firstDispatches
	if pace > 0 {
		f.size = max(1, int(submissionTime/pace))
	}
	if parts := (dispatches + f.size - 1) / f.size; parts > 0 {
		f.size = (dispatches + parts - 1) / parts
	}
}

// startShort makes the first submission of a long run a short one, so that the device starts sooner. growth is as in flow.
func (f *flow) startShort(dispatches, growth int) {
	if dispatches > 2*headDispatches {
		f.head, f.growth = headDispatches, growth
	}
}

// full reports whether the recorded dispatches should be submitted.
func (f *flow) full() bool {
	return f.dispatches >= f.size || f.head > 0 && f.dispatches >= f.head
}

// ended begins to count the dispatches of the next submission.
func (f *flow) ended() {
	f.dispatches = 0
	f.head *= f.growth
}

// flush waits for a slot and submits the recorded dispatches.
func (c *recording) flush() error {
	if err := c.awaitSlot(); err != nil {
		return err
	}
	if err := c.submit(); err != nil {
		return err
	}
	c.track(c.flow.next)
	c.flow.ended()
	return nil
}

// awaitSlot waits until fewer than maxInFlight submissions are under way. It returns an error if the run is cancelled.
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

// track registers the last submission. When it ends, all steps before reached have ended.
func (c *recording) track(reached int) {
	f := &c.flow
	f.inFlight++
	c.x.g.dev.OnDone(func() {
		f.inFlight--
		f.reached = reached
	})
	c.report() // Submit calls callbacks, too
}

// report calls Progress with the steps that have ended. The last step is reported at the end of the run.
func (c *recording) report() {
	if f := &c.flow; f.reached > f.reported && f.reached < len(c.x.p.Steps) {
		f.reported = f.reached
		if c.r.Progress != nil {
			c.r.Progress(f.reached)
		}
	}
}

// settle ends a run. It drops what was recorded and not submitted, and waits for what was submitted, because the next run uses the same memory.
func (c *recording) settle() {
	c.drop()
	if c.x.io.host != nil {
		c.x.g.drain() // not only until one fails: the host may write to the io space as soon as the run has ended
		return
	}
	for wait := NewPatience(time.Time{}); c.flow.inFlight > 0; wait.Pause() {
		if idle, err := c.x.g.poll(); idle || err != nil { // a submission that failed has ended, too
			return
		}
	}
}
