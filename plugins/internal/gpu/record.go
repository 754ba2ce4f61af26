package gpu

import (
	"context"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
)

// recording is the state of one run, or of the recording of a tape.
type recording struct {
	exec  *executable
	ctx   context.Context
	run   device.Run
	start time.Time
	stats *device.Stats
	// buffer for the result of read; reused, because the wgpu backend turns off garbage collection during a run
	value []byte
	enc   Encoder

	flow        flow
	loops       loops
	tape        *tape         // receives the submissions; nil to submit at once
	downloading bool          // the next submission only copies results to the host
	submitted   time.Duration // time of the first submission, since start; 0 before it

	parts   []part // that are copied early, in their order
	arrived int    // how many of them have been reported
	copied  []bool // for each output, whether it is copied early; nil if none is

	needed []bool // steps that run; nil means all

	clock Clock   // measures the steps; nil if the run is not profiled, or the host measures them
	tick  float64 // length of a tick of clock in nanoseconds
}

// single reports whether each step must be submitted by itself, because its results are examined or the host measures
// its time.
func (c *recording) single() bool {
	o := c.run.Opts
	return o.CheckNaN || o.Observe != nil && len(o.Dump) > 0 || o.Profile && c.clock == nil
}

// begin makes an encoder if the recording has none.
func (c *recording) begin() (err error) {
	if c.enc == nil {
		c.enc, err = c.exec.gpu.dev.NewEncoder(c.exec.program.Method)
	}
	return err
}

// submit submits the recorded commands.
func (c *recording) submit() error {
	if c.enc == nil {
		return nil
	}
	err := c.exec.gpu.submit(c.enc)
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

// commands submits the commands that f records.
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

// submit finishes a recording and submits it.
func (g *gpu) submit(enc Encoder) error {
	commands, err := enc.Finish()
	if err != nil {
		return err
	}
	return g.dev.Submit(commands)
}

// copySpace records a copy between a space at offset at and a buffer at offset offset. bytes is rounded up to whole
// words.
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

// dispatch records a dispatch, unless the dispatch has nothing to do.
func (c *recording) dispatch(d *dispatch) {
	if d.x == 0 || d.shader.Once {
		return
	}
	c.enc.Dispatch(d.pipeline, d.bound, d.x, d.y)
	c.flow.dispatches++
	c.flow.all++
}

// drop discards the recorded commands that are not submitted.
func (c *recording) drop() {
	if c.enc != nil {
		c.enc.Release()
		c.enc = nil
	}
}

// read waits for the device and returns the bytes of a value. They are valid until the next read.
func (c *recording) read(o program.Operand) ([]byte, error) {
	if o.Bytes == 0 {
		return tensor.AlignedBytes(0), nil
	}
	st, err := c.exec.gpu.newStaging(ToHost, o.Bytes)
	if err != nil {
		return nil, err
	}
	defer st.release()
	s, at := c.exec.locate(c.exec.program.Places[o.Node])
	bytes, narrow := o.Bytes, c.exec.rounded.only[o.Node]
	if narrow {
		s, at, _ = c.exec.roundedAt(c.exec.program.Graph.Nodes[o.Node])
		bytes = o.Bytes / 2
	}
	if err := c.begin(); err != nil {
		return nil, err
	}
	if err := c.copySpace(s, at, bytes, st.buffer, 0, true); err != nil {
		return nil, err
	}
	if err := c.submit(); err != nil {
		return nil, err
	}
	if int64(len(c.value)) < o.Bytes {
		c.value = tensor.AlignedBytes(int(o.Bytes))
	}
	data := c.value[:o.Bytes]
	return data, c.exec.gpu.access(st, o.Bytes, time.Time{}, func(from []byte) {
		if narrow {
			t := tensor.Tensor{DType: c.exec.rounded.types[o.Node], Shape: o.Shape, Data: from[:bytes]}
			a := t.Array()
			a.DType = dtype.F32
			a.Store(data)
		} else {
			copy(data, from)
		}
	})
}
