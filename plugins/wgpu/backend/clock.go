//go:build cgo && (darwin || amd64)

package backend

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/rajveermalviya/go-webgpu/wgpu"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
)

// clock measures times on the device by timestamp queries. Mark k is the moment when all that was recorded before it is done.
type clock struct {
	g        *gpu
	marks    int
	sets     []*wgpu.QuerySet // of wgpu.QuerySetMaxQueries marks each, but for the last
	resolved *wgpu.Buffer
	ticks    *staging
}

// newClock makes a clock with the given number of marks.
func (g *gpu) newClock(marks int) (*clock, error) {
	c := &clock{g: g, marks: marks}
	var err error
	for left := marks; left > 0 && err == nil; left -= wgpu.QuerySetMaxQueries {
		var s *wgpu.QuerySet
		if s, err = g.device.CreateQuerySet(&wgpu.QuerySetDescriptor{Label: "clock", Type: wgpu.QueryType_Timestamp,
			Count: uint32(min(left, wgpu.QuerySetMaxQueries))}); err == nil {
			c.sets = append(c.sets, s)
		}
	}
	if err == nil {
		c.resolved, err = g.newBuffer("clock", int64(marks)*wgpu.QuerySize, wgpu.BufferUsage_QueryResolve|wgpu.BufferUsage_CopySrc)
	}
	if err == nil {
		c.ticks, err = g.newStaging(wgpu.MapMode_Read, int64(marks)*wgpu.QuerySize)
	}
	if err != nil {
		c.release()
		if errors.Is(err, device.ErrMemory) {
			return nil, err
		}
		return nil, diag.New(device.ErrDevice, "wgpu", "a clock of %d marks on %s: %w", marks, g.name, err)
	}
	return c, nil
}

func (c *clock) release() {
	if c == nil {
		return
	}
	for _, s := range c.sets {
		s.Release()
	}
	if c.resolved != nil {
		c.resolved.Destroy()
		c.resolved.Release()
	}
	c.ticks.release()
}

// bytes of the clock's buffers.
func (c *clock) bytes() int64 {
	if c == nil {
		return 0
	}
	return int64(c.marks)*wgpu.QuerySize + c.ticks.size
}

// mark records mark k; no pass may be open.
func (c *clock) mark(enc *wgpu.CommandEncoder, k int) error {
	return deviceError(enc.WriteTimestamp(c.sets[k/wgpu.QuerySetMaxQueries], uint32(k%wgpu.QuerySetMaxQueries)))
}

// collect records the copy of all marks to a buffer that the host can map.
func (c *clock) collect(enc *wgpu.CommandEncoder) error {
	var err error
	for i, s := range c.sets {
		first := i * wgpu.QuerySetMaxQueries
		if err == nil {
			err = enc.ResolveQuerySet(s, 0, uint32(min(c.marks-first, wgpu.QuerySetMaxQueries)), c.resolved, uint64(first)*wgpu.QuerySize)
		}
	}
	if err == nil {
		err = enc.CopyBufferToBuffer(c.resolved, 0, c.ticks.buffer, 0, uint64(c.marks)*wgpu.QuerySize)
	}
	return deviceError(err)
}

// read returns the marks in ticks. It is called after the submission of what collect recorded, and waits for it. A clock of few
// bits can return a mark before its predecessor, which then counts as equal to it.
func (c *clock) read() (ticks []uint64, err error) {
	err = c.g.access(c.ticks, int64(c.marks)*wgpu.QuerySize, time.Time{}, func(b []byte) {
		for k := range c.marks {
			t := binary.LittleEndian.Uint64(b[k*wgpu.QuerySize:])
			if k > 0 {
				t = max(t, ticks[k-1])
			}
			ticks = append(ticks, t)
		}
	})
	return ticks, err
}

// calibrationTime is the time between the two marks that measure the length of a tick. The host sees the end of a submission
// about 10 us late, so the length is exact to about one in a thousand.
const calibrationTime = 20 * time.Millisecond

// tick is the length of the device's tick in nanoseconds. The library does not report it, so it is measured once, against
// the host's clock.
func (g *gpu) tick() (float64, error) {
	if g.tickLength > 0 {
		return g.tickLength, nil
	}
	c, err := g.newClock(2)
	if err != nil {
		return 0, err
	}
	defer c.release()
	var at [2]time.Time
	for k := range at {
		if k > 0 {
			time.Sleep(calibrationTime)
		}
		if err := g.commands(func(enc *wgpu.CommandEncoder) error { return c.mark(enc, k) }); err != nil {
			return 0, err
		}
		g.wait()
		at[k] = time.Now()
	}
	if err := g.commands(c.collect); err != nil {
		return 0, err
	}
	ticks, err := c.read()
	if err != nil {
		return 0, err
	}
	if ticks[1] == ticks[0] {
		return 0, diag.New(device.ErrDevice, "wgpu", "the clock of %s stands still", g.name)
	}
	length := float64(at[1].Sub(at[0])) / float64(ticks[1]-ticks[0])
	if math.Abs(length-1) < 0.02 {
		length = 1 // most clocks count nanoseconds, and a measured 0.999 is one of these
	}
	g.tickLength = length
	return length, nil
}

// times converts marks to the times of the steps between them. The first mark was submitted at from, and the host saw the last
// at to, both since the start of the run.
func times(ticks []uint64, tick float64, from, to time.Duration) (starts, lengths []time.Duration) {
	first := ticks[0]
	at := func(k int) time.Duration { return time.Duration(float64(ticks[k]-first) * tick) }
	if span := at(len(ticks) - 1); from+span > to { // the length of a tick is exact to one in a thousand only
		from = max(0, to-span)
	}
	for k := range len(ticks) - 1 {
		begin, end := min(from+at(k), to), min(from+at(k+1), to)
		starts, lengths = append(starts, begin), append(lengths, end-begin)
	}
	return starts, lengths
}

// startClock prepares the times of a profiled run. The device measures them if it has a clock and the run is not
// split into steps for another reason. The run then stays one submission, as without a profile.
func (c *recording) startClock() (err error) {
	x := c.x
	if !c.r.Opts.Profile {
		return nil
	}
	c.stats.Clock = device.HostClock
	if !x.g.timestamps || c.r.Opts.CheckNaN || c.r.Opts.Observe != nil && len(c.r.Opts.Dump) > 0 {
		return nil
	}
	if c.tick, err = x.g.tick(); err != nil {
		return err
	}
	if x.clock == nil {
		if x.clock, err = x.g.newClock(len(x.p.Steps) + 1); err != nil {
			return err
		}
	}
	c.clock, c.stats.Clock = x.clock, device.DeviceClock
	return nil
}

// mark records mark k of the clock, if there is one.
func (c *recording) mark(k int) error {
	if c.clock == nil {
		return nil
	}
	c.endPass()
	return c.clock.mark(c.enc, k)
}

// readClock waits for the marks and sets the times of the steps.
func (c *recording) readClock() error {
	if c.clock == nil {
		return nil
	}
	ticks, err := c.clock.read()
	if err != nil {
		return err
	}
	starts, lengths := times(ticks, c.tick, c.submitted, time.Since(c.start))
	for i, s := range c.x.b.Steps {
		if c.needed != nil && !c.needed[i] {
			continue
		}
		c.stats.Steps = append(c.stats.Steps, device.Step{Node: s.Node.ID, Start: starts[i], Time: lengths[i]})
	}
	return nil
}

// deviceError converts an error of the library to a *diag.Error.
func deviceError(err error) error {
	if err == nil {
		return nil
	}
	return diag.New(device.ErrDevice, "wgpu", "%w", oneLine(err))
}

// oneLine joins the lines of an error of the library.
func oneLine(err error) error { return errors.New(strings.Join(strings.Fields(err.Error()), " ")) }
