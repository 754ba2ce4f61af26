package driver

import (
	"encoding/binary"

	"github.com/rlx-go/rlx/plugins/internal/gpu"
)

// clock implements gpu.Clock with the end times of command buffers, so each Mark starts a new command buffer. Metal's
// counter samples are not an alternative: on Apple's GPUs they cannot be taken between dispatches. The gap between two
// command buffers counts towards the later one.
type clock struct {
	marks int
	ticks *buffer // a uint64 for each mark, and 4 bytes that a command buffer without other commands fills
}

// mark is time k of a clock.
type mark struct {
	of *clock
	k  int
}

const tickBytes = 8

func (d *opened) NewClock(marks int) (gpu.Clock, error) {
	b, err := d.newBuffer("clock", (int64(marks)*tickBytes+4+15)&^15)
	if err != nil {
		return nil, err
	}
	return &clock{marks, b}, nil
}

func (c *clock) Release()          { c.ticks.Release() }
func (c *clock) Ticks() gpu.Buffer { return c.ticks }
func (c *clock) Bytes() int64      { return c.ticks.size }

// set stores a time, in nanoseconds, as the time of the mark.
func (m mark) set(at uint64) {
	binary.LittleEndian.PutUint64(m.of.ticks.Bytes(m.of.ticks.size)[m.k*tickBytes:], at)
}

func (e *encoder) Mark(of gpu.Clock, k int) error {
	m := mark{of.(*clock), k}
	l := &e.lists[len(e.lists)-1]
	switch n := len(e.lists); {
	case len(l.commands) == 0 && n > 1: // nothing since the last mark
		l = &e.lists[n-2]
	case len(l.commands) == 0:
		e.add(command{to: m.of.ticks, toAt: int64(m.of.marks) * tickBytes, bytes: 4})
		fallthrough
	default:
		e.lists = append(e.lists, commandList{})
		l = &e.lists[len(e.lists)-2]
	}
	l.marks = append(l.marks, m)
	return nil
}

// Collect does nothing: when a command buffer ends, its marks are stored in Ticks.
func (e *encoder) Collect(gpu.Clock) error { return nil }
