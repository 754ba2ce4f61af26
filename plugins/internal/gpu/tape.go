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
		single, exact := x.recordAt(submissionTime, outputs) // a dispatch per submission, so that the error names the step
		single.release()
		if exact != nil {
			err = exact
		}
	}
	return t, err
}

// recordAt is record with the time that a dispatch takes.
func (x *executable) recordAt(pace time.Duration, outputs []bool) (t *tape, err error) {
	t = &tape{outputs: slices.Clone(outputs)}
	r := device.Run{Outputs: t.outputs}
	c := &recording{x: x, ctx: context.Background(), tape: t, r: r, needed: x.p.Needed(r.Computed(), nil)}
	c.flow.begin(len(x.dispatches), pace)
	if len(x.dispatches) > 2*headDispatches {
		c.flow.head = headDispatches
	}
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
	c.flow.first, c.flow.dispatches = c.flow.next, 0
	return nil
}

// play submits the tape, which it records if there is none, and records the next one while the device works.
func (c *recording) play() (err error) {
	x := c.x
	outputs := c.r.Outputs
	if x.tape != nil && !slices.Equal(x.tape.outputs, outputs) {
		x.tape.release()
		x.tape = nil
	}
	if x.tape == nil {
		if x.tape, err = x.record(outputs); err != nil {
			return err
		}
	}
	t := x.tape
	x.tape = nil
	defer t.release()
	for len(t.parts) > 0 {
		p := t.parts[0]
		if !p.download {
			if err := c.awaitSlot(); err != nil {
				return err
			}
		}
		t.parts = t.parts[1:]
		if err := x.g.dev.Submit(p.commands); err != nil {
			return x.g.deviceError(err)
		}
		if c.submitted == 0 {
			c.submitted = time.Since(c.start)
		}
		c.track(p.next)
	}
	if x.pace > 0 { // otherwise the size of submissions is not known
		x.tape, _ = x.record(outputs) // an error is left to the next run
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
