package gpu

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
)

// tape holds the recorded commands of a whole plain run (see plain). Recording takes longer than short programs run. It
// depends only on the sizes and the wanted outputs, so while the device works on a run, the host records a tape for the
// next one. With WebGPU and Metal a tape is submitted once, because their command buffers are not reusable. If the
// commands are Kept, all runs submit the same tape.
type tape struct {
	submissions []submission
	syms        map[string]int64
	outputs     []bool        // device.Run.Outputs
	pace        time.Duration // for which the submissions were sized; 0 if it was not known
	kept        bool
	parts       []part // see early
}

// submission is a recorded submission of a tape.
type submission struct {
	commands Commands
	next     int // number of steps that have ended when it ends
	// it only copies results to the host, which is so quick that it is submitted without waiting for a slot
	download bool
}

// release releases the submissions that are left. t may be nil.
func (t *tape) release() {
	if t != nil {
		for _, s := range t.submissions {
			if s.commands != nil {
				s.commands.Release()
			}
		}
		t.submissions = nil
	}
}

// A program keeps tapes of other sizes and outputs. A server with 64 texts alternates between about 15 numbers of rows,
// with and without pieces of prompts. A CUDA graph takes 6 KB of the host and 3.6 KB of the device for each dispatch
// (driver 580), so all tapes of a program together have at most tapedDispatches, 50 MB and 30 MB, but a program with
// more than that in leastTapes tapes keeps these.
const (
	mostTapes       = 32
	leastTapes      = 8
	tapedDispatches = 8 << 10
)

// keptTapes returns how many tapes of other sizes a program with a number of dispatches keeps.
func keptTapes(dispatches int) int {
	return min(mostTapes, max(leastTapes, tapedDispatches/max(1, dispatches)))
}

// putTape puts the tape away if it can be used again, and releases it otherwise.
func (x *executable) putTape() {
	if x.tape == nil || !x.tape.kept {
		x.tape.release()
		x.tape = nil
		return
	}
	x.tapes = slices.Insert(x.tapes, 0, x.tape)
	x.tape = nil
	for most := keptTapes(len(x.dispatches)); len(x.tapes) > most; {
		x.tapes[most].release()
		x.tapes = x.tapes[:most]
	}
}

// takeTape makes tape that of the current sizes and some outputs, or nil if there is none.
func (x *executable) takeTape(outputs []bool) {
	if x.tape != nil && slices.Equal(x.tape.outputs, outputs) {
		return
	}
	x.putTape()
	i := slices.IndexFunc(x.tapes, func(t *tape) bool {
		return maps.Equal(t.syms, x.syms) && slices.Equal(t.outputs, outputs)
	})
	if i >= 0 {
		x.tape = x.tapes[i]
		x.tapes = slices.Delete(x.tapes, i, i+1)
	}
}

// dropTapes releases all tapes, because what they refer to changes.
func (x *executable) dropTapes() {
	for _, t := range append(x.tapes, x.tape) {
		t.release()
	}
	x.tape, x.tapes = nil, nil
}

// plain reports whether the run can use a tape: it has no feeds and no keeps, it is not profiled, and no step is
// submitted by itself.
func (c *recording) plain() bool {
	return !c.single() && !c.run.Opts.Profile && len(c.run.Feeds)+len(c.run.Keeps) == 0
}

// record records a tape for the sizes that were bound last, and for a selection of outputs; nil means all.
func (x *executable) record(outputs []bool) (*tape, error) {
	t, err := x.recordAt(x.paceOf(), outputs)
	if err != nil {
		err = x.exactError(err, outputs)
	}
	return t, err
}

// exactError repeats a recording that failed with err, with one dispatch per submission, and returns its error, which
// names the step.
func (x *executable) exactError(err error, outputs []bool) error {
	single, exact := x.recordAt(submissionTime, outputs)
	single.release()
	if exact != nil {
		return exact
	}
	return err
}

// recordAt is like record. pace is the average time of a dispatch, which determines the size of submissions.
func (x *executable) recordAt(pace time.Duration, outputs []bool) (t *tape, err error) {
	t = &tape{syms: x.syms, outputs: slices.Clone(outputs), pace: pace}
	r := device.Run{Outputs: t.outputs}
	c := &recording{exec: x, ctx: context.Background(), tape: t, run: r, needed: x.program.Needed(r.Computed(), nil)}
	c.flow.begin(len(x.dispatches), pace)
	if !x.gpu.limits.Keeps {
		c.flow.startShort(len(x.dispatches), 0)
	}
	for _, f := range []func() error{c.inputs, c.dispatchAll, c.outputs, c.endSubmission} {
		if err = f(); err != nil {
			c.drop()
			t.release()
			return nil, err
		}
	}
	t.parts = c.parts
	return t, nil
}

// endSubmission ends a submission: it adds the recorded commands to the tape, or submits them if there is no tape.
func (c *recording) endSubmission() error {
	if c.tape == nil {
		return c.flush()
	}
	commands, err := c.enc.Finish()
	c.enc = nil
	if err != nil {
		return c.refused(c.flow.first, c.flow.next, err)
	}
	if k, ok := commands.(Kept); ok {
		k.Keep()
		c.tape.kept = true
	}
	c.tape.submissions = append(c.tape.submissions, submission{commands, c.flow.next, c.downloading})
	c.flow.first = c.flow.next
	c.flow.ended()
	return nil
}

// submitPlain submits the tape for this run. If there is no tape, it records and submits the run. Then it records a
// tape for the next run while the device works.
func (c *recording) submitPlain() error {
	x := c.exec
	outputs := c.run.Outputs
	x.takeTape(outputs)
	submit := c.stream
	if x.tape != nil {
		submit = c.submitTape
	}
	if err := submit(); err != nil {
		return err
	}
	pace := x.paceOf()
	if t := x.tape; t != nil && len(t.submissions) > 1 && pace > 0 && (t.pace == 0 || t.pace > 2*pace) {
		x.tape.release() // its submissions are too small
		x.tape = nil
	}
	// No tape is recorded after the first run, because the best size of submissions is not known yet. Nor with loops,
	// because the memory for their commands grows with the number of iterations.
	if x.tape == nil && pace > 0 && len(x.loops) == 0 {
		x.tape, _ = x.record(outputs) // after an error, the next run records again and reports it
	}
	return nil
}

// submitTape submits the tape. It cannot be used again unless it is kept.
func (c *recording) submitTape() error {
	t := c.exec.tape
	c.parts = t.parts
	if !t.kept {
		c.exec.tape = nil
		defer t.release()
	}
	for i, s := range t.submissions {
		if !s.download {
			if err := c.awaitSlot(); err != nil {
				return err
			}
		}
		if !t.kept {
			t.submissions[i].commands = nil
		}
		if err := c.exec.gpu.dev.Submit(s.commands); err != nil {
			return c.exec.gpu.deviceError(err)
		}
		if c.submitted == 0 {
			c.submitted = time.Since(c.start)
		}
		c.track(s.next)
	}
	return nil
}

// stream records and submits at the same time, because recording a run whose sizes are new may take milliseconds. Each
// submission is several times as long as the one before, so the device has work while the next one is recorded.
func (c *recording) stream() error {
	x := c.exec
	c.needed = x.program.Needed(c.run.Computed(), nil)
	c.flow.begin(len(x.dispatches), x.paceOf())
	c.flow.startShort(len(x.dispatches), streamGrowth)
	for _, f := range []func() error{c.inputs, c.dispatchAll, c.outputs, c.submit} {
		if err := f(); err != nil {
			if c.ctx.Err() == nil && x.gpu.lostError() == nil {
				err = x.exactError(err, c.run.Outputs)
			}
			return err
		}
	}
	return nil
}

// refused returns the error for steps [first, next) if the device rejects their commands.
func (c *recording) refused(first, next int, err error) error {
	if next == first+1 {
		n := c.exec.program.Graph.Nodes[c.exec.program.Steps[first].Node]
		return device.StepError(device.ErrDevice, n, fmt.Errorf("cannot be submitted: %w", err))
	}
	err = fmt.Errorf("steps %d to %d of %d cannot be submitted: %w", first+1, max(next, first+1),
		len(c.exec.program.Steps), err)
	return diag.New(device.ErrDevice, c.exec.program.Method, "%w", &device.AtNode{Node: device.NoNode, Err: err})
}
