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
	stats, err := guard(x.g.api, func() (device.Stats, error) { return x.run(ctx, r) })
	if err != nil && !errors.Is(err, device.ErrNaN) {
		stats.FirstNaN = -1 // stats may be the zero value
	}
	return stats, err
}

func (x *executable) run(ctx context.Context, r device.Run) (device.Stats, error) {
	x.g.mu.Lock()
	defer x.g.mu.Unlock()
	defer x.g.dev.Use()()
	stats := device.Stats{FirstNaN: -1}
	start := time.Now()
	if int64(len(r.IO)) < x.p.IOSize {
		return stats, diag.New(device.ErrInput, x.p.Method, "%d bytes of inputs and outputs; the program needs %d",
			len(r.IO), x.p.IOSize)
	}
	if host := x.io.host; host != nil && unsafe.SliceData(r.IO) != unsafe.SliceData(host) {
		return stats,
			diag.New(device.ErrInput, x.p.Method,
				"the inputs and outputs of the run are not in the memory that Load was given")
	}
	if err := x.g.lostError(); err != nil {
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
	run := &recording{x: x, ctx: ctx, r: r, start: start, stats: &stats}
	x.g.polled = run.report
	err := run.steps()
	run.settle()
	x.g.polled = nil
	if err == nil && r.Progress != nil {
		r.Progress(len(x.p.Steps))
	}
	stats.Total, stats.DeviceMemory = time.Since(start), x.memory()
	return stats, err
}

// steps executes a run whose inputs are in the staging buffer or in place, and copies the results to the host.
func (c *recording) steps() error {
	if c.r.Progress != nil {
		c.r.Progress(0)
	}
	if c.plain() {
		if err := c.submitPlain(); err != nil {
			return err
		}
		return c.results()
	}
	c.needed = c.x.p.Needed(c.r.Computed(), c.r.Opts.Dump)
	if err := c.startClock(); err != nil {
		return err
	}
	c.flow.begin(len(c.x.dispatches), c.x.pace)
	for _, f := range []func() error{c.inputs, c.dispatchAll, c.outputs, c.submit, c.readClock} {
		if err := f(); err != nil {
			return err
		}
	}
	return c.results()
}

// dispatchAll records the steps that the run needs. If each must be submitted by itself, it also runs them.
func (c *recording) dispatchAll() error {
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
	for i := range c.x.p.Steps {
		first := next
		for next < len(c.x.dispatches) && c.x.dispatches[next].step == i {
			next++
		}
		var err error
		switch of := c.x.dispatches[first:next]; {
		case c.needed != nil && !c.needed[i]:
			err = c.skip(i)
		case single:
			err = c.runStep(i, of, grouped)
		default:
			err = c.record(i, of, grouped)
			if err == nil && c.flow.full() && i+1 < len(c.x.p.Steps) {
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
	return c.mark(i + 1)
}

// runStep records step i, runs it by itself, and examines its results.
func (c *recording) runStep(i int, of []dispatch, grouped []bool) error {
	if c.r.Progress != nil && i > 0 { // step 0 has been reported already
		c.r.Progress(i)
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
	return c.x.g.wait(time.Time{})
}

// grouped reports for each group whether its shader runs instead of the shaders of its steps. It does if the run needs
// all of these steps and examines no values between them.
func (c *recording) grouped() []bool {
	out := make([]bool, c.x.groups)
	for _, d := range c.x.dispatches {
		if d.steps != nil && d.x > 0 && !c.single() {
			steps := c.needed
			if steps != nil {
				steps = steps[d.step+1-len(d.steps) : d.step+1]
			}
			out[d.group] = !slices.Contains(steps, false)
		}
	}
	return out
}

// examine records the time of step i, which has ended, and examines its results. It is used in runs that submit each
// step by itself.
func (c *recording) examine(i int, begin time.Duration) error {
	s := c.x.b.Steps[i]
	if c.r.Opts.Profile {
		c.stats.Steps = append(
			c.stats.Steps, device.Step{Node: s.Node.ID, Start: begin, Time: time.Since(c.start) - begin})
	}
	for _, out := range s.Outs {
		err := c.r.Opts.Examine(s.Node, c.x.p.Graph.Nodes[out.Node], c.stats, func() (t tensor.Tensor, err error) {
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
