package gpu

import (
	"context"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
)

// Repeat is for benchmarks. It runs all steps of a loaded program the given number of times, in one submission, with
// the inputs and sizes of the last run. It returns the average time of a repetition, measured by the clock of the
// device. A profile reads the clock after each step, which adds some microseconds to the step; Repeat reads it only at
// the beginning and the end.
func Repeat(exe device.Executable, times int) (time.Duration, error) {
	x := exe.(*executable)
	return guard(x.gpu.api, func() (time.Duration, error) {
		x.gpu.mu.Lock()
		defer x.gpu.mu.Unlock()
		defer x.gpu.dev.Use()()
		if !x.gpu.limits.Clock || x.bound == nil {
			return 0,
				diag.New(device.ErrUnsupported, x.program.Method,
					"cannot be repeated: the device %s must have a clock, and the program must have run before",
					x.gpu.name)
		}
		if len(x.loops) > 0 {
			return 0, diag.New(device.ErrUnsupported, x.program.Method,
				"cannot be repeated: it has a loop that is a step")
		}
		return x.repeat(times)
	})
}

// repeat implements Repeat. The caller holds g.mu and has called Use.
func (x *executable) repeat(times int) (time.Duration, error) {
	tick, err := x.gpu.tick()
	if err != nil {
		return 0, err
	}
	marks, err := x.gpu.dev.NewClock(2)
	if err != nil {
		return 0, err
	}
	defer marks.Release()
	x.unclear = x.statuses > 0 // nothing checks and clears the status words here
	c := &recording{exec: x, ctx: context.Background()}
	defer c.drop()
	if err := c.begin(); err != nil {
		return 0, err
	}
	grouped := c.grouped()
	all := func(times int) {
		for range times {
			for i := range x.dispatches {
				if d := &x.dispatches[i]; d.group < 0 || grouped[d.group] == (d.steps != nil) {
					c.dispatch(d)
				}
			}
		}
	}
	all(1) // so that the device is busy at the first mark
	if err := c.enc.Mark(marks, 0); err != nil {
		return 0, err
	}
	all(times)
	if err := c.enc.Mark(marks, 1); err != nil {
		return 0, err
	}
	if err := c.enc.Collect(marks); err != nil {
		return 0, err
	}
	if err := c.submit(); err != nil {
		return 0, err
	}
	ticks, err := x.gpu.ticks(marks, 2)
	if err != nil {
		return 0, err
	}
	return time.Duration(float64(ticks[1]-ticks[0]) * tick / float64(times)), nil
}
