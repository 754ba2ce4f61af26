//go:build cgo && (darwin || amd64)

package backend

import (
	"context"
	"time"

	"github.com/rajveermalviya/go-webgpu/wgpu"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
)

// recording is the state of one run.
type recording struct {
	x     *executable
	ctx   context.Context
	r     device.Run
	start time.Time
	stats *device.Stats
	value []byte // the last result of read, reused since garbage is not collected during a run
	enc   *wgpu.CommandEncoder
	pass  *wgpu.ComputePassEncoder

	flow      flow
	tape      *tape         // to record on; nil to submit at once
	submitted time.Duration // when the first submission was made, since start; 0 before that

	needed []bool // steps that run; nil means all

	clock *clock  // measures the steps; nil if that is not requested, or the host does
	tick  float64 // of clock, in nanoseconds
}

// single reports whether the run must observe each step when it has ended.
func (c *recording) single() bool {
	o := c.r.Opts
	return o.CheckNaN || o.Observe != nil && len(o.Dump) > 0 || o.Profile && c.clock == nil
}

func (c *recording) begin() (err error) {
	if c.enc == nil {
		if c.enc, err = c.x.g.device.CreateCommandEncoder(&wgpu.CommandEncoderDescriptor{Label: c.x.p.Method}); err != nil {
			return deviceError(err)
		}
	}
	return nil
}

// submit ends the recording and submits it.
func (c *recording) submit() error {
	if c.enc == nil {
		return nil
	}
	c.endPass()
	err := c.x.g.submit(c.enc)
	c.enc = nil
	if err != nil {
		return c.refused(c.flow.first, c.flow.next, err)
	}
	if c.submitted == 0 {
		c.submitted = time.Since(c.start)
	}
	c.flow.first = c.flow.next
	return nil
}

// commands submits what f records.
func (g *gpu) commands(f func(*wgpu.CommandEncoder) error) error {
	enc, err := g.device.CreateCommandEncoder(nil)
	if err != nil {
		return deviceError(err)
	}
	if err := f(enc); err != nil {
		enc.Release()
		return err
	}
	return deviceError(g.submit(enc))
}

// submit submits what an encoder has recorded, and frees the encoder.
func (g *gpu) submit(enc *wgpu.CommandEncoder) error {
	buf, err := enc.Finish(nil)
	enc.Release()
	if err != nil {
		return err
	}
	g.queue.Submit(buf)
	buf.Release()
	return nil
}

func (c *recording) endPass() {
	if c.pass != nil {
		_ = c.pass.End() // finishing the encoder reports an error
		c.pass.Release()
		c.pass = nil
	}
}

// copySpace records a copy between a space and a buffer, in whole words.
func (c *recording) copySpace(s *space, at, bytes int64, buffer *wgpu.Buffer, offset int64, toBuffer bool) error {
	c.endPass()
	for _, p := range s.pieces(at, (bytes+3)&^3, 0) {
		var err error
		if toBuffer {
			err = c.enc.CopyBufferToBuffer(p.buffer, uint64(p.offset), buffer, uint64(offset), uint64(p.size))
		} else {
			err = c.enc.CopyBufferToBuffer(buffer, uint64(offset), p.buffer, uint64(p.offset), uint64(p.size))
		}
		if err != nil {
			return deviceError(err)
		}
		offset += p.size
	}
	return nil
}

func (c *recording) dispatch(d *dispatch) {
	if d.x == 0 {
		return
	}
	if c.pass == nil {
		c.pass = c.enc.BeginComputePass(nil)
	}
	c.pass.SetPipeline(d.pipeline.ComputePipeline)
	c.pass.SetBindGroup(0, d.bound, nil)
	c.pass.DispatchWorkgroups(d.x, d.y, 1)
	c.flow.dispatches++
}

// drop discards what was recorded.
func (c *recording) drop() {
	c.endPass()
	if c.enc != nil {
		c.enc.Release()
		c.enc = nil
	}
}

// read copies a value from the device, through its own staging buffer. The bytes are valid until the next read.
func (c *recording) read(o program.Operand) ([]byte, error) {
	if o.Bytes == 0 {
		return tensor.AlignedBytes(0), nil
	}
	st, err := c.x.g.newStaging(wgpu.MapMode_Read, o.Bytes)
	if err != nil {
		return nil, err
	}
	defer st.release()
	s, at := c.x.locate(c.x.p.Places[o.Node])
	if err := c.begin(); err != nil {
		return nil, err
	}
	if err := c.copySpace(s, at, o.Bytes, st.buffer, 0, true); err != nil {
		return nil, err
	}
	if err := c.submit(); err != nil {
		return nil, err
	}
	if int64(len(c.value)) < o.Bytes {
		c.value = tensor.AlignedBytes(int(o.Bytes))
	}
	data := c.value[:o.Bytes]
	return data, c.x.g.access(st, o.Bytes, time.Time{}, func(from []byte) { copy(data, from) })
}
