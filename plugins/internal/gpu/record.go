package gpu

import (
	"context"
	"time"

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
	enc   Encoder

	flow        flow
	tape        *tape         // to record on; nil to submit at once
	downloading bool          // the last submission ended within the copies of results
	submitted   time.Duration // when the first submission was made, since start; 0 before that

	needed []bool // steps that run; nil means all

	clock Clock   // measures the steps; nil if that is not requested, or the host does
	tick  float64 // of clock, in nanoseconds
}

// single reports whether the run must observe each step when it has ended.
func (c *recording) single() bool {
	o := c.r.Opts
	return o.CheckNaN || o.Observe != nil && len(o.Dump) > 0 || o.Profile && c.clock == nil
}

func (c *recording) begin() (err error) {
	if c.enc == nil {
		c.enc, err = c.x.g.dev.NewEncoder(c.x.p.Method)
	}
	return err
}

// submit ends the recording and submits it.
func (c *recording) submit() error {
	if c.enc == nil {
		return nil
	}
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
func (g *gpu) commands(f func(Encoder) error) error {
	enc, err := g.dev.NewEncoder("")
	if err != nil {
		return err
	}
	if err := f(enc); err != nil {
		enc.Release()
		return err
	}
	return g.deviceError(g.submit(enc))
}

// submit submits what an encoder has recorded, and frees the encoder.
func (g *gpu) submit(enc Encoder) error {
	commands, err := enc.Finish()
	if err != nil {
		return err
	}
	return g.dev.Submit(commands)
}

// copySpace records a copy between a space and a buffer, in whole words.
func (c *recording) copySpace(s *space, at, bytes int64, buffer Buffer, offset int64, toBuffer bool) error {
	for _, p := range s.pieces(at, (bytes+3)&^3, 0) {
		var err error
		if toBuffer {
			err = c.enc.Copy(buffer, offset, p)
		} else {
			err = c.enc.Copy(p.Buffer, p.Offset, Piece{buffer, offset, p.Size})
		}
		if err != nil {
			return err
		}
		offset += p.Size
	}
	return nil
}

func (c *recording) dispatch(d *dispatch) {
	if d.x == 0 {
		return
	}
	c.enc.Dispatch(d.pipeline, d.bound, d.x, d.y)
	c.flow.dispatches++
}

// drop discards what was recorded.
func (c *recording) drop() {
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
	st, err := c.x.g.newStaging(ToHost, o.Bytes)
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
