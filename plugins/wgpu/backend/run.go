//go:build cgo && (darwin || amd64)

package backend

import (
	"context"
	"encoding/binary"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"github.com/rajveermalviya/go-webgpu/wgpu"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/wgpu/kernels"
)

// bind writes the parameters of every shader for the sizes of a run.
func (x *executable) bind(r device.Run) error {
	if int64(len(r.IO)) < x.p.IOSize {
		return diag.New(device.ErrInput, x.p.Method, "%d bytes of inputs and outputs; the program needs %d", len(r.IO), x.p.IOSize)
	}
	if x.bound && maps.Equal(x.syms, r.Syms) {
		return nil
	}
	b, err := x.p.Bind(r.Syms)
	if err != nil {
		return diag.New(device.ErrInput, x.p.Method, "%w", err)
	}
	x.bound = false
	var data []byte
	for i := range x.dispatches {
		d := &x.dispatches[i]
		s := b.Steps[d.step]
		c := &kernels.Call{In: s.In, Out: s.Out}
		data = append(data, make([]byte, d.at-int64(len(data)))...)
		p := d.shader.Params(c)
		d.x, d.y = 0, 0
		if p == nil {
			continue
		}
		for _, v := range p {
			data = binary.LittleEndian.AppendUint32(data, v)
		}
		if d.x, d.y, err = x.g.fold(d.shader.Groups(c)); err != nil {
			return diag.New(device.ErrUnsupported, s.Node.Op.Name, "step %d, %s: %w", d.step, s.Node.Label(), err)
		}
	}
	if len(data) > 0 {
		if err := x.g.queue.WriteBuffer(x.params, 0, data); err != nil {
			return deviceError(err)
		}
	}
	x.b, x.syms, x.bound = b, maps.Clone(r.Syms), true
	return nil
}

// Run executes the program once. Without options that look at single steps it is one submission.
func (x *executable) Run(ctx context.Context, r device.Run) (device.Stats, error) {
	x.g.mu.Lock()
	defer x.g.mu.Unlock()
	// The binding keeps the address of a Go variable in C until a buffer is mapped. No collection may begin meanwhile; one
	// that is under way spares what is allocated during it.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	stats := device.Stats{FirstNaN: -1}
	start := time.Now()
	if err := x.bind(r); err != nil {
		return stats, err
	}
	if ctx.Err() != nil {
		return stats, context.Cause(ctx)
	}
	if x.g.isLost() {
		return stats, diag.New(device.ErrDevice, "wgpu", "%s was lost: %s", x.g.name, x.g.lost)
	}
	var in int64
	for _, o := range x.b.Inputs {
		in += program.AlignUp(o.Bytes)
	}
	if in > 0 {
		err := x.g.access(x.up, in, func(to []byte) {
			at := int64(0)
			for _, o := range x.b.Inputs {
				tensor.Copy(to[at:at+o.Bytes], r.IO[o.Offset:o.Offset+o.Bytes])
				at += program.AlignUp(o.Bytes)
			}
		})
		if err != nil {
			return stats, err
		}
	}
	run := &recording{x: x, ctx: ctx, r: r, start: start, stats: &stats}
	err := run.steps()
	if err == nil && r.Progress != nil {
		r.Progress(len(x.p.Steps))
	}
	stats.Total, stats.PeakRSS, stats.DeviceMemory = time.Since(start), peakRSS(), x.memory()
	return stats, err
}

// recording is a run while it is made.
type recording struct {
	x     *executable
	ctx   context.Context
	r     device.Run
	start time.Time
	stats *device.Stats
	enc   *wgpu.CommandEncoder
	pass  *wgpu.ComputePassEncoder

	clock    *clock        // takes the times of the steps; nil: not asked for, or the host takes them
	tick     float64       // of clock, in nanoseconds
	recorded time.Duration // when the first mark was submitted, since start
}

// single reports a run that looks at each step when it has ended.
func (c *recording) single() bool {
	o := c.r.Opts
	return o.CheckNaN || o.Observe != nil && len(o.Dump) > 0 || o.Profile && c.clock == nil
}

// startClock prepares the times of a profiled run. They are the device's where it has a clock and the run is not taken
// apart for something else; then all of it stays one submission, and runs as it does without a profile.
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

// mark records mark k of the clock, where there is one.
func (c *recording) mark(k int) error {
	if c.clock == nil {
		return nil
	}
	c.endPass()
	return c.clock.mark(c.enc, k)
}

func (c *recording) begin() (err error) {
	if c.enc == nil {
		if c.enc, err = c.x.g.device.CreateCommandEncoder(&wgpu.CommandEncoderDescriptor{Label: c.x.p.Method}); err != nil {
			return deviceError(err)
		}
	}
	return nil
}

// submit ends the recording and gives it to the device.
func (c *recording) submit() error {
	if c.enc == nil {
		return nil
	}
	c.endPass()
	err := c.x.g.submit(c.enc)
	c.enc = nil
	return err
}

// submit gives to the device what an encoder has recorded, and frees the encoder.
func (g *gpu) submit(enc *wgpu.CommandEncoder) error {
	buf, err := enc.Finish(nil)
	enc.Release()
	if err != nil {
		return deviceError(err)
	}
	g.queue.Submit(buf)
	buf.Release()
	return nil
}

func (c *recording) endPass() {
	if c.pass != nil {
		_ = c.pass.End() // an error shows when the encoder is finished
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

func (c *recording) steps() error {
	x := c.x
	if err := c.begin(); err != nil {
		return err
	}
	if x.statuses > 0 {
		if err := c.enc.ClearBuffer(x.status.buffers[0], 0, uint64(x.statuses)*program.Align); err != nil {
			return deviceError(err)
		}
	}
	at := int64(0)
	for _, o := range x.b.Inputs {
		if err := c.copySpace(x.io, o.Offset, o.Bytes, x.up.buffer, at, false); err != nil {
			return err
		}
		at += program.AlignUp(o.Bytes)
	}
	if err := c.dispatchAll(); err != nil {
		return err
	}
	return c.finish()
}

// dispatchAll records all steps, or runs them one by one.
func (c *recording) dispatchAll() error {
	x, next := c.x, 0
	if err := c.startClock(); err != nil {
		return err
	}
	if err := c.mark(0); err != nil {
		return err
	}
	single := c.single()
	if single {
		if err := c.submit(); err != nil {
			return err
		}
		x.g.wait()
	}
	for i := range x.p.Steps {
		if c.ctx.Err() != nil {
			c.drop()
			return context.Cause(c.ctx)
		}
		if c.r.Progress != nil && (single || i == 0) {
			c.r.Progress(i)
			if c.ctx.Err() != nil {
				c.drop()
				return context.Cause(c.ctx)
			}
		}
		begin := time.Since(c.start)
		if err := c.begin(); err != nil {
			return err
		}
		for ; next < len(x.dispatches) && x.dispatches[next].step == i; next++ {
			c.dispatch(&x.dispatches[next])
		}
		if err := c.mark(i + 1); err != nil {
			return err
		}
		if single {
			if err := c.submit(); err != nil {
				return c.at(i, err)
			}
			x.g.wait()
			if err := c.look(i, begin); err != nil {
				return err
			}
		}
	}
	return c.begin()
}

func (c *recording) dispatch(d *dispatch) {
	if d.x == 0 {
		return
	}
	if c.pass == nil {
		c.pass = c.enc.BeginComputePass(nil)
	}
	c.pass.SetPipeline(d.pipeline.ComputePipeline)
	c.pass.SetBindGroup(0, d.group, nil)
	c.pass.DispatchWorkgroups(d.x, d.y, 1)
}

// drop forgets what was recorded.
func (c *recording) drop() {
	c.endPass()
	if c.enc != nil {
		c.enc.Release()
		c.enc = nil
	}
}

// at names the step of an error.
func (c *recording) at(i int, err error) error {
	n := c.x.b.Steps[i].Node
	return diag.New(device.ErrDevice, n.Label(), "%s: %w", n.Op.Name, err)
}

// look is for runs that watch single steps; step i has ended.
func (c *recording) look(i int, begin time.Duration) error {
	o, out := c.r.Opts, c.x.b.Steps[i].Out
	n := c.x.b.Steps[i].Node
	if o.Profile {
		c.stats.Steps = append(c.stats.Steps, device.Step{Node: n.ID, Start: begin, Time: time.Since(c.start) - begin})
	}
	observed := o.Observe != nil && slices.Contains(o.Dump, n.ID)
	if !observed && !(o.CheckNaN && out.DType.IsFloat()) {
		return nil
	}
	data, err := c.read(out)
	if err != nil {
		return err
	}
	if observed {
		if err := o.Observe(n.ID, out.Shape, data); err != nil {
			return err
		}
	}
	if o.CheckNaN && (tensor.Tensor{DType: out.DType, Shape: out.Shape, Data: data}).HasNaN() {
		c.stats.FirstNaN = n.ID
		return diag.New(device.ErrNaN, n.Label(), "%s produced a NaN in %v", n.Op.Name, n.Type)
	}
	return nil
}

// readClock waits for the marks and fills the times of the steps in.
func (c *recording) readClock() error {
	if c.clock == nil {
		return nil
	}
	ticks, err := c.clock.read()
	if err != nil {
		return err
	}
	starts, lengths := times(ticks, c.tick, c.recorded, time.Since(c.start))
	for i, s := range c.x.b.Steps {
		c.stats.Steps = append(c.stats.Steps, device.Step{Node: s.Node.ID, Start: starts[i], Time: lengths[i]})
	}
	return nil
}

// read copies a value off the device, through staging of its own.
func (c *recording) read(o program.Operand) ([]byte, error) {
	data := tensor.AlignedBytes(int(o.Bytes))
	if o.Bytes == 0 {
		return data, nil
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
	return data, c.x.g.access(st, o.Bytes, func(from []byte) { copy(data, from) })
}

// finish submits, waits, copies the outputs to the host and reports values that a shader refused.
func (c *recording) finish() error {
	x, at := c.x, int64(0)
	for _, o := range x.b.Outputs {
		if err := c.copySpace(x.io, o.Offset, o.Bytes, x.down.buffer, at, true); err != nil {
			return err
		}
		at += program.AlignUp(o.Bytes)
	}
	statusAt := at
	if x.statuses > 0 {
		if err := c.copySpace(x.status, 0, int64(x.statuses)*program.Align, x.down.buffer, at, true); err != nil {
			return err
		}
		at += int64(x.statuses) * program.Align
	}
	if c.clock != nil {
		if err := c.clock.collect(c.enc); err != nil {
			return err
		}
	}
	c.recorded = time.Since(c.start)
	if err := c.submit(); err != nil {
		return err
	}
	if err := c.readClock(); err != nil {
		return err
	}
	if at == 0 {
		x.g.wait()
		return nil
	}
	refused := -1
	err := x.g.access(x.down, at, func(from []byte) {
		for _, d := range x.dispatches {
			if d.status >= 0 && d.x > 0 && binary.LittleEndian.Uint32(from[statusAt+int64(d.status)*program.Align:]) != 0 && refused < 0 {
				refused = d.step
			}
		}
		if refused >= 0 {
			return
		}
		at := int64(0)
		for _, o := range x.b.Outputs {
			tensor.Copy(c.r.IO[o.Offset:o.Offset+o.Bytes], from[at:at+o.Bytes])
			at += program.AlignUp(o.Bytes)
		}
	})
	if err == nil && refused >= 0 {
		n := x.b.Steps[refused].Node
		err = diag.New(device.ErrInput, n.Label(), "step %d of %d (%s): an index is out of range, or a divisor is 0", refused+1, len(x.p.Steps), n.Op.Name)
	}
	return err
}
