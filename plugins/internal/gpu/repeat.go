package gpu

import (
	"context"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
)

// Repeat is for benchmarks. It runs all steps of a program of this backend so many times in one submission, with the inputs and sizes of the run
// before, and returns what one time takes by the clock of the device. A profile has a mark after each step, which costs some microseconds; here
// there are two marks in all, and steps follow each other as in a run.
func Repeat(exe device.Executable, times int) (time.Duration, error) {
	x := exe.(*executable)
	return guard(x.g.api, func() (time.Duration, error) {
		x.g.mu.Lock()
		defer x.g.mu.Unlock()
		defer x.g.dev.Use()()
		if !x.g.limits.Clock || x.b == nil {
			return 0, diag.New(device.ErrUnsupported, x.p.Method, "cannot be repeated: %s needs a clock, and the program a run before", x.g.name)
		}
		return x.repeat(times)
	})
}

func (x *executable) repeat(times int) (time.Duration, error) {
	tick, err := x.g.tick()
	if err != nil {
		return 0, err
	}
	marks, err := x.g.dev.NewClock(2)
	if err != nil {
		return 0, err
	}
	defer marks.Release()
	x.unclear = x.statuses > 0 // nobody looks at it here
	c := &recording{x: x, ctx: context.Background()}
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
	all(1) // the device is busy when the first mark comes
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
	ticks, err := x.g.ticks(marks, 2)
	if err != nil {
		return 0, err
	}
	return time.Duration(float64(ticks[1]-ticks[0]) * tick / float64(times)), nil
}
