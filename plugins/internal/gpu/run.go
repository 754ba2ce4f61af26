package gpu

import (
	"context"
	"errors"
	"slices"
	"time"
	"unsafe"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/tensor"
)

// Run executes the program once. It makes few submissions (see flow), unless the options examine single steps.
func (x *executable) Run(ctx context.Context, r device.Run) (device.Stats, error) {
	stats, err := guard(x.gpu.api, func() (device.Stats, error) { return x.run(ctx, r) })
	if err != nil && !errors.Is(err, device.ErrNaN) {
		stats.FirstNaN = -1 // stats may be the zero value
	}
	return stats, err
}

func (x *executable) run(ctx context.Context, r device.Run) (device.Stats, error) {
	x.gpu.mu.Lock()
	defer x.gpu.mu.Unlock()
	defer x.gpu.dev.Use()()
	stats := device.Stats{FirstNaN: -1}
	start := time.Now()
	if int64(len(r.IO)) < x.program.IOSize {
		return stats, diag.New(device.ErrInput, x.program.Method,
			"%d bytes of inputs and outputs; the program needs %d",
			len(r.IO), x.program.IOSize)
	}
	host := x.io.host
	if x.pinned != nil {
		host = x.hostIO
	}
	if host != nil && unsafe.SliceData(r.IO) != unsafe.SliceData(host) {
		return stats,
			diag.New(device.ErrInput, x.program.Method,
				"the inputs and outputs of the run are not in the memory that Load was given")
	}
	if err := x.gpu.lostError(); err != nil {
		return stats, err
	}
	if err := x.bind(r.Syms); err != nil {
		return stats, err
	}
	if ctx.Err() != nil {
		return stats, context.Cause(ctx)
	}
	if err := x.useState(r); err != nil {
		return stats, err
	}
	if err := x.writeInputs(&r); err != nil {
		return stats, err
	}
	if err := x.clearStatus(); err != nil {
		return stats, err
	}
	x.clearMarks()
	run := &recording{exec: x, ctx: ctx, run: r, start: start, stats: &stats}
	x.gpu.polled = run.report
	err := run.steps()
	run.settle()
	x.gpu.polled = nil
	if err == nil && r.Progress != nil {
		r.Progress(len(x.program.Steps))
	}
	stats.Total, stats.DeviceMemory = time.Since(start), x.memory()
	return stats, err
}

// steps executes a run whose inputs are in the staging buffer or in place, and copies the results to the host.
func (c *recording) steps() error {
	if c.run.Progress != nil {
		c.run.Progress(0)
	}
	if c.plain() {
		if err := c.submitPlain(); err != nil {
			return err
		}
		return c.results()
	}
	c.needed = c.exec.program.Needed(c.run.Computed(), c.run.Opts.Dump)
	if err := c.startClock(); err != nil {
		return err
	}
	c.flow.begin(len(c.exec.dispatches), c.exec.pace)
	for _, f := range []func() error{c.inputs, c.dispatchAll, c.outputs, c.submit, c.readClock} {
		if err := f(); err != nil {
			return err
		}
	}
	return c.results()
}

// dispatchAll records the steps that the run needs. If each must be submitted by itself, it also runs them.
func (c *recording) dispatchAll() error {
	c.startLoops()
	if err := c.mark(0); err != nil {
		return err
	}
	single := c.single()
	if single {
		if err := c.submitAndWait(); err != nil {
			return err
		}
	}
	next, grouped := 0, c.grouped()
	for i := range c.exec.program.Steps {
		first := next
		for next < len(c.exec.dispatches) && c.exec.dispatches[next].step == i {
			next++
		}
		var err error
		switch of := c.exec.dispatches[first:next]; {
		case c.needed != nil && !c.needed[i]:
			err = c.skip(i)
		case single:
			err = c.runStep(i, of, grouped)
		default:
			if err = c.record(i, of, grouped); err == nil {
				err = c.copyEarly(i)
			}
			if err == nil && c.flow.full() && i+1 < len(c.exec.program.Steps) {
				err = c.endSubmission()
			}
		}
		if err != nil {
			return err
		}
	}
	return c.begin()
}

// skip passes over step i, which the run does not need.
func (c *recording) skip(i int) error {
	c.flow.next = i + 1
	if err := c.begin(); err != nil {
		return err
	}
	return c.mark(i + 1)
}

// record records the dispatches of step i.
func (c *recording) record(i int, of []dispatch, grouped []bool) error {
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	if err := c.begin(); err != nil {
		return err
	}
	for k := range of {
		if d := &of[k]; d.group < 0 || grouped[d.group] == (d.steps != nil) {
			c.dispatch(d)
		}
	}
	c.flow.next = i + 1
	if l := c.exec.loopOf(i); l != nil {
		if err := c.outermost(l); err != nil {
			return err
		}
	}
	return c.mark(i + 1)
}

// runStep records step i, runs it by itself, and examines its results.
func (c *recording) runStep(i int, of []dispatch, grouped []bool) error {
	if c.run.Progress != nil && i > 0 { // step 0 has been reported already
		c.run.Progress(i)
	}
	begin := time.Since(c.start)
	if err := c.record(i, of, grouped); err != nil {
		return err
	}
	if err := c.submitAndWait(); err != nil {
		return err
	}
	return c.examine(i, begin)
}

func (c *recording) submitAndWait() error {
	if err := c.submit(); err != nil {
		return err
	}
	return c.exec.gpu.wait(time.Time{})
}

// grouped reports for each group whether its shaders run instead of the shaders of its steps. They do if the run needs
// all of these steps and examines no values between them.
func (c *recording) grouped() []bool {
	out := make([]bool, c.exec.groups)
	for i := range out {
		out[i] = !c.single()
	}
	for _, d := range c.exec.dispatches {
		if d.steps == nil || !out[d.group] {
			continue
		}
		steps := c.needed
		if steps != nil {
			steps = steps[d.step+1-len(d.steps) : d.step+1]
		}
		out[d.group] = d.x > 0 && !slices.Contains(steps, false)
	}
	return out
}

// examine records the time of step i, which has ended, and examines its results. It is used in runs that submit each
// step by itself.
func (c *recording) examine(i int, begin time.Duration) error {
	s := c.exec.bound.Steps[i]
	if c.run.Opts.Profile {
		c.stats.Steps = append(
			c.stats.Steps, device.Step{Node: s.Node.ID, Start: begin, Time: time.Since(c.start) - begin})
	}
	for _, out := range s.Outs {
		err := c.run.Opts.Examine(s.Node, c.exec.program.Graph.Nodes[out.Node], c.stats, func() (t tensor.Tensor,
			err error) {
			t.DType, t.Shape = out.DType, out.Shape
			t.Data, err = c.read(out)
			return t, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
