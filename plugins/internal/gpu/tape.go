package gpu

import (
	"context"
	"slices"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
)

// tape is the recording of a whole plain run. Recording takes longer than short programs run, and depends only on the sizes and on the wanted
// outputs, so each run records the tape of the next one while the device works. A tape is played once, because neither WebGPU nor Metal has
// reusable command buffers.
type tape struct {
	parts   []part
	outputs []bool // as in device.Run
}

// part is one submission.
type part struct {
	commands Commands
	next     int  // step after its last one
	download bool // it only copies results. That takes little time, so it is submitted without waiting for a slot
}

func (t *tape) release() {
	if t != nil {
		for _, p := range t.parts {
			p.commands.Release()
		}
		t.parts = nil
	}
}

// plain reports whether the run can be played from a tape: it has no feeds and no keeps, and nothing observes or times its steps.
func (c *recording) plain() bool {
	return !c.single() && !c.r.Opts.Profile && len(c.r.Feeds)+len(c.r.Keeps) == 0
}

// record makes a tape for the sizes bound last and for some outputs; nil means all.
func (x *executable) record(outputs []bool) (*tape, error) {
	t, err := x.recordAt(x.pace, outputs)
	if err != nil {
		err = x.exactError(err, outputs)
	}
	return t, err
}

// exactError replaces the error of a recording by one that names the step.
func (x *executable) exactError(err error, outputs []bool) error {
	t, exact := x.recordAt(submissionTime, outputs) // a dispatch per submission
	t.release()
	if exact != nil {
		return exact
	}
	return err
}

// recordAt is record with the time that a dispatch takes.
func (x *executable) recordAt(pace time.Duration, outputs []bool) (t *tape, err error) {
	t = &tape{outputs: slices.Clone(outputs)}
	r := device.Run{Outputs: t.outputs}
	c := &recording{x: x, ctx: context.Background(), tape: t, r: r, needed: x.p.Needed(r.Computed(), nil)}
	c.flow.begin(len(x.dispatches), pace)
	c.flow.startShort(len(x.dispatches), 0)
	for _, f := range []func() error{c.inputs, c.dispatchAll, c.outputs, c.cut} {
		if err = f(); err != nil {
			c.drop()
			t.release()
			return nil, err
		}
	}
	return t, nil
}

// cut ends a submission: it adds a part to the tape or, without a tape, submits.
func (c *recording) cut() error {
	if c.tape == nil {
		return c.flush()
	}
	commands, err := c.enc.Finish()
	c.enc = nil
	if err != nil {
		return c.refused(c.flow.first, c.flow.next, err)
	}
	c.tape.parts = append(c.tape.parts, part{commands, c.flow.next, c.downloading})
	c.flow.first = c.flow.next
	c.flow.ended()
	return nil
}

// play submits the tape, or records and submits the run if there is none. Then it records the next tape while the device works.
func (c *recording) play() error {
	x := c.x
	outputs := c.r.Outputs
	if x.tape != nil && !slices.Equal(x.tape.outputs, outputs) {
		x.tape.release()
		x.tape = nil
	}
	submit := c.stream
	if x.tape != nil {
		submit = c.submitTape
	}
	if err := submit(); err != nil {
		return err
	}
	if x.pace > 0 { // otherwise the size of submissions is not known
		x.tape, _ = x.record(outputs) // an error is left to the next run
	}
	return nil
}

// submitTape submits the tape.
func (c *recording) submitTape() error {
	t := c.x.tape
	c.x.tape = nil
	defer t.release()
	for len(t.parts) > 0 {
		p := t.parts[0]
		if !p.download {
			if err := c.awaitSlot(); err != nil {
				return err
			}
		}
		t.parts = t.parts[1:]
		if err := c.x.g.dev.Submit(p.commands); err != nil {
			return c.x.g.deviceError(err)
		}
		if c.submitted == 0 {
			c.submitted = time.Since(c.start)
		}
		c.track(p.next)
	}
	return nil
}

// stream records and submits at the same time, because recording a run whose sizes are new may take milliseconds. Each submission is several times as
// long as the one before, so the device has work while the next one is recorded.
func (c *recording) stream() error {
	x := c.x
	c.needed = x.p.Needed(c.r.Computed(), nil)
	c.flow.begin(len(x.dispatches), x.pace)
	c.flow.startShort(len(x.dispatches), streamGrowth)
	for _, f := range []func() error{c.inputs, c.dispatchAll, c.outputs, c.submit} {
		if err := f(); err != nil {
			if c.ctx.Err() == nil && x.g.lostError() == nil {
				err = x.exactError(err, c.r.Outputs)
			}
			return err
		}
	}
	return nil
}

// refused returns the error for steps [first, next), whose commands the device does not accept.
func (c *recording) refused(first, next int, err error) error {
	if next == first+1 {
		n := c.x.p.Graph.Nodes[c.x.p.Steps[first].Node]
		return diag.New(device.ErrDevice, n.Label(), "step %d of %d (%s) cannot be submitted: %w", next, len(c.x.p.Steps), n.Op.Name, err)
	}
	return diag.New(device.ErrDevice, c.x.p.Method, "steps %d to %d of %d cannot be submitted: %w", first+1, max(next, first+1), len(c.x.p.Steps), err)
}
