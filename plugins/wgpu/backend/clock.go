//go:build cgo && (darwin || amd64)

package backend

import (
	"errors"

	"github.com/rajveermalviya/go-webgpu/wgpu"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
)

// clock measures times on the device by timestamp queries.
type clock struct {
	marks    int
	sets     []*wgpu.QuerySet // each has wgpu.QuerySetMaxQueries marks, the last one the rest
	resolved *buffer
	ticks    *buffer
}

func (d *opened) NewClock(marks int) (gpu.Clock, error) {
	c := &clock{marks: marks}
	size := int64(marks) * wgpu.QuerySize
	var err error
	for left := marks; left > 0 && err == nil; left -= wgpu.QuerySetMaxQueries {
		var s *wgpu.QuerySet
		if s, err = d.device.CreateQuerySet(&wgpu.QuerySetDescriptor{Label: "clock", Type: wgpu.QueryType_Timestamp,
			Count: uint32(min(left, wgpu.QuerySetMaxQueries))}); err == nil {
			c.sets = append(c.sets, s)
		}
	}
	if err == nil {
		c.resolved, err = d.makeBuffer(
			&wgpu.BufferDescriptor{Label: "clock", Size: uint64(size),
				Usage: wgpu.BufferUsage_QueryResolve | wgpu.BufferUsage_CopySrc})
	}
	if err == nil {
		c.ticks, err = d.newBuffer("clock", program.AlignUp(size), gpu.ToHost)
	}
	if err != nil {
		c.Release()
		if errors.Is(err, device.ErrMemory) {
			return nil, err
		}
		return nil, diag.New(device.ErrDevice, "wgpu", "a clock of %d marks on %s: %w", marks, d.adapter.info.Name,
			oneLine(err))
	}
	return c, nil
}

func (c *clock) Release() {
	for _, s := range c.sets {
		s.Release()
	}
	for _, b := range []*buffer{c.resolved, c.ticks} {
		if b != nil {
			b.Release()
		}
	}
}

func (c *clock) Ticks() gpu.Buffer { return c.ticks }

func (c *clock) Bytes() int64 {
	return int64(c.marks)*wgpu.QuerySize + program.AlignUp(int64(c.marks)*wgpu.QuerySize)
}

// Mark ends the pass, because times can only be taken between passes.
func (e *encoder) Mark(of gpu.Clock, k int) error {
	e.endPass()
	return deviceError(
		e.enc.WriteTimestamp(of.(*clock).sets[k/wgpu.QuerySetMaxQueries], uint32(k%wgpu.QuerySetMaxQueries)))
}

func (e *encoder) Collect(of gpu.Clock) error {
	e.endPass()
	c := of.(*clock)
	var err error
	for i, s := range c.sets {
		first := i * wgpu.QuerySetMaxQueries
		if err == nil {
			err = e.enc.ResolveQuerySet(s, 0, uint32(min(c.marks-first, wgpu.QuerySetMaxQueries)), c.resolved.Buffer,
				uint64(first)*wgpu.QuerySize)
		}
	}
	if err == nil {
		err = e.enc.CopyBufferToBuffer(c.resolved.Buffer, 0, c.ticks.Buffer, 0, uint64(c.marks)*wgpu.QuerySize)
	}
	return deviceError(err)
}
