package driver

import (
	"encoding/binary"

	"github.com/rlx-go/rlx/plugins/internal/gpu"
)

// clock takes times at the ends of command buffers, so each mark ends one. Metal's counter samples take times within a command buffer, but not between
// dispatches on Apple's GPUs. The gap between two command buffers counts for the later one.
type clock struct {
	marks int
	ticks *buffer // a word for each mark, and 4 bytes to fill in a part that has no commands
}

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

// set writes the time of a mark, in nanoseconds.
func (m mark) set(at uint64) {
	binary.LittleEndian.PutUint64(m.of.ticks.Bytes(m.of.ticks.size)[m.k*tickBytes:], at)
}

func (e *encoder) Mark(of gpu.Clock, k int) error {
	m := mark{of.(*clock), k}
	p := &e.parts[len(e.parts)-1]
	switch n := len(e.parts); {
	case len(p.commands) == 0 && n > 1: // nothing since the last mark
		p = &e.parts[n-2]
	case len(p.commands) == 0:
		e.add(command{to: m.of.ticks, toAt: int64(m.of.marks) * tickBytes, bytes: 4})
		fallthrough
	default:
		e.parts = append(e.parts, part{})
		p = &e.parts[len(e.parts)-2]
	}
	p.marks = append(p.marks, m)
	return nil
}

// Collect has nothing to do: a mark is in Ticks as soon as its command buffer has ended.
func (e *encoder) Collect(gpu.Clock) error { return nil }
