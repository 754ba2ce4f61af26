package gpu

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
)

// clockBytes returns the size of the buffers of the program's clock, or 0 if it has no clock.
func (x *executable) clockBytes() int64 {
	if x.clock == nil {
		return 0
	}
	return x.clock.Bytes()
}

// ticks waits for the device and returns the times of a clock, in ticks. The caller has submitted the clock's Collect.
// Clocks with few bits may wrap around, so a time that is earlier than the previous one is replaced by it.
func (g *gpu) ticks(c Clock, marks int) (ticks []uint64, err error) {
	const size = 8
	err = g.access(&staging{buffer: c.Ticks(), size: int64(marks) * size}, int64(marks)*size, time.Time{},
		func(b []byte) {
			for k := range marks {
				t := binary.LittleEndian.Uint64(b[k*size:])
				if k > 0 {
					t = max(t, ticks[k-1])
				}
				ticks = append(ticks, t)
			}
		})
	return ticks, err
}

// calibrationTime is the time between the two marks that measure the length of a tick. The host notices the end of a
// submission about 10 us late, so the measured length is off by up to 0.1 %.
const calibrationTime = 20 * time.Millisecond

// tick returns the length of a tick of the device in nanoseconds. WebGPU does not report it, so the first call measures
// it by the host's clock.
func (g *gpu) tick() (float64, error) {
	if g.tickLength > 0 {
		return g.tickLength, nil
	}
	c, err := g.dev.NewClock(2)
	if err != nil {
		return 0, err
	}
	defer c.Release()
	var at [2]time.Time
	for k := range at {
		if k > 0 {
			time.Sleep(calibrationTime)
		}
		if err := g.commands(func(enc Encoder) error { return enc.Mark(c, k) }); err != nil {
			return 0, err
		}
		if err := g.wait(time.Time{}); err != nil {
			return 0, err
		}
		at[k] = time.Now()
	}
	if err := g.commands(func(enc Encoder) error { return enc.Collect(c) }); err != nil {
		return 0, err
	}
	ticks, err := g.ticks(c, 2)
	if err != nil {
		return 0, err
	}
	if ticks[1] == ticks[0] {
		return 0, diag.New(device.ErrDevice, g.api.Name(), "the clock of %s stands still", g.name)
	}
	length := float64(at[1].Sub(at[0])) / float64(ticks[1]-ticks[0])
	if math.Abs(length-1) < 0.02 {
		length = 1 // most clocks count nanoseconds, so the difference is a measurement error
	}
	g.tickLength = length
	return length, nil
}

// times converts ticks to the start and length of each step. The first mark was submitted at from, and the host saw the
// last one at to. These times and the starts count from the start of the run.
func times(ticks []uint64, tick float64, from, to time.Duration) (starts, lengths []time.Duration) {
	first := ticks[0]
	at := func(k int) time.Duration { return time.Duration(float64(ticks[k]-first) * tick) }
	if span := at(len(ticks) - 1); from+span > to { // the measured length of a tick is slightly too long
		from = max(0, to-span)
	}
	for k := range len(ticks) - 1 {
		begin, end := min(from+at(k), to), min(from+at(k+1), to)
		starts, lengths = append(starts, begin), append(lengths, end-begin)
	}
	return starts, lengths
}

// startClock prepares a profiled run. The device measures the steps if it has a clock, unless an option requires that
// the steps run one by one. The host measures them otherwise.
func (c *recording) startClock() (err error) {
	x := c.exec
	if !c.run.Opts.Profile {
		return nil
	}
	c.stats.Clock = device.HostClock
	if !x.gpu.limits.Clock || c.run.Opts.CheckNaN || c.run.Opts.Observe != nil && len(c.run.Opts.Dump) > 0 {
		return nil
	}
	if c.tick, err = x.gpu.tick(); err != nil {
		return err
	}
	if x.clock == nil {
		if x.clock, err = x.gpu.dev.NewClock(len(x.program.Steps) + 1); err != nil {
			return err
		}
	}
	c.clock, c.stats.Clock = x.clock, device.DeviceClock
	return nil
}

// mark records time k of the clock, if the run has one.
func (c *recording) mark(k int) error {
	if c.clock == nil {
		return nil
	}
	return c.enc.Mark(c.clock, k)
}

// readClock waits for the clock and sets the times of the steps.
func (c *recording) readClock() error {
	if c.clock == nil {
		return nil
	}
	ticks, err := c.exec.gpu.ticks(c.clock, len(c.exec.program.Steps)+1)
	if err != nil {
		return err
	}
	starts, lengths := times(ticks, c.tick, c.submitted, time.Since(c.start))
	for i, s := range c.exec.bound.Steps {
		if c.needed != nil && !c.needed[i] {
			continue
		}
		c.stats.Steps = append(c.stats.Steps, device.Step{Node: s.Node.ID, Start: starts[i], Time: lengths[i]})
	}
	return nil
}
