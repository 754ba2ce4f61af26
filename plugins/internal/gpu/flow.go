package gpu

import (
	"context"
	"time"
)

// A long run is divided into several submissions, because a submission cannot be cancelled: its length determines how
// long a cancelled run continues. The device idles briefly between two submissions, so a short run has only two: a
// small one, and the rest, which is submitted while the device works on the first. Submitting takes half a microsecond
// per dispatch.
const (
	// dispatches in the first submission of a run, if the run has more than twice as many
	headDispatches = 16
	// while a run is recorded and submitted at the same time, each submission has this many times the dispatches of the
	// one before it
	streamGrowth    = 4
	firstDispatches = 8                     // dispatches per submission until the time of a dispatch is known
	submissionTime  = 25 * time.Millisecond // desired length of a submission, estimated from the previous run
	maxInFlight     = 2                     // submissions at a time: one that runs, and the next
)

// flow divides a run into submissions, and tracks which steps are recorded, submitted and done.
type flow struct {
	dispatches int // recorded since the last submission
	all        int // recorded
	size       int // maximum number of dispatches in a submission
	head       int // number of dispatches in the next submission if fewer than size; 0 for size
	growth     int // factor by which head grows with each submission; 0 if only the first submission is short

	first, next int // steps [first, next) are recorded and not submitted
	inFlight    int // submissions that are not known to have ended
	reached     int // steps before this one have ended
	reported    int // the last argument of Progress
}

// begin sets the size of submissions for a run with a number of dispatches. pace is the average time of a dispatch in
// the previous run, or 0 if there was none.
func (f *flow) begin(dispatches int, pace time.Duration) {
	f.size = firstDispatches
	if pace > 0 {
		f.size = max(1, int(submissionTime/pace))
	}
	if parts := (dispatches + f.size - 1) / f.size; parts > 0 {
		f.size = (dispatches + parts - 1) / parts
	}
}

// startShort makes the first submission of a long run short, so that the device starts sooner. growth is the factor in
// flow.
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

// awaitSlot waits until fewer than maxInFlight submissions are in flight. It returns an error if the run is cancelled.
func (c *recording) awaitSlot() error {
	f := &c.flow
	for wait := NewPatience(time.Time{}); f.inFlight >= maxInFlight; wait.Pause() {
		if idle, err := c.exec.gpu.poll(); err != nil {
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

// track registers a callback for the end of the last submission. Then all steps before reached have ended.
func (c *recording) track(reached int) {
	f := &c.flow
	f.inFlight++
	c.exec.gpu.dev.OnDone(func() {
		f.inFlight--
		f.reached = reached
	})
	c.report() // Submit may have called callbacks
}

// report calls Progress with the steps that have ended. The last step is reported at the end of the run.
func (c *recording) report() {
	c.reportLoop()
	c.reportReady()
	if f := &c.flow; f.reached > f.reported && f.reached < len(c.exec.program.Steps) {
		f.reported = f.reached
		if c.run.Progress != nil {
			c.run.Progress(f.reached)
		}
	}
}

// settle ends a run. It discards commands that are not submitted, and waits for those that are, because the next run
// uses the same memory.
func (c *recording) settle() {
	c.drop()
	defer c.hideAll()
	if c.exec.io.host != nil || c.exec.pinned != nil {
		// waits for all submissions even if one fails, because the host may write to the io space as soon as the run
		// has ended
		c.exec.gpu.drain()
		return
	}
	for wait := NewPatience(time.Time{}); c.flow.inFlight > 0; wait.Pause() {
		if idle, err := c.exec.gpu.poll(); idle || err != nil { // a submission that failed has ended, too
			return
		}
	}
}
