package driver

import (
	"runtime"
	"unsafe"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
)

// encoder collects commands in Go. Finish or Submit encodes a whole command buffer at once, in one autorelease pool, so
// no Metal encoder is ever left open.
type encoder struct {
	d     *opened
	label string
	lists []commandList // one for each command buffer; new commands go to the last
}

// commandList holds the commands of a command buffer, and the marks that are set to the time at which it ends.
type commandList struct {
	commands []command
	marks    []mark
}

// command is a dispatch if pipeline is set, a copy if from is set, and otherwise a fill with zeros.
type command struct {
	pipeline *pipeline
	bound    *bindings
	x, y     uint32 // threadgroups

	to, from     *buffer
	toAt, fromAt int64
	bytes        int64
}

func (d *opened) NewEncoder(label string) (gpu.Encoder, error) {
	return &encoder{d: d, label: label, lists: make([]commandList, 1)}, nil
}

func (e *encoder) add(c command) {
	l := &e.lists[len(e.lists)-1]
	l.commands = append(l.commands, c)
}

func (e *encoder) Clear(p gpu.Piece) error {
	e.add(command{to: p.Buffer.(*buffer), toAt: p.Offset, bytes: p.Size})
	return nil
}

func (e *encoder) Copy(to gpu.Buffer, at int64, from gpu.Piece) error {
	e.add(command{to: to.(*buffer), toAt: at, from: from.Buffer.(*buffer), fromAt: from.Offset, bytes: from.Size})
	return nil
}

func (e *encoder) Dispatch(p gpu.Pipeline, b gpu.Bindings, x, y uint32) {
	e.add(command{pipeline: p.(*pipeline), bound: b.(*bindings), x: x, y: y})
}

// Finish encodes the commands unless Submit has to do it. Submit encodes recordings with marks, which may need several
// command buffers, and all recordings that are finished while many command buffers are encoded and not submitted. A
// queue blocks while commandBuffersOfQueue command buffers exist that have not ended, so a caller that finishes more
// recordings than that before it submits the first would block forever.
func (e *encoder) Finish() (gpu.Commands, error) {
	c := &commands{encoder: e}
	e.d.mu.Lock()
	early := len(e.lists) == 1 && len(e.lists[0].marks) == 0 && e.d.ahead < commandBuffersOfQueue/2
	e.d.mu.Unlock()
	if !early {
		return c, nil
	}
	var err error
	if c.buffer, err = e.d.encode(e.lists[0].commands); err != nil {
		return nil, err
	}
	c.d.addAhead(1)
	return c, nil
}

func (e *encoder) Release() {}

// commands is a finished recording. buffer is 0 if Submit has to encode the commands.
type commands struct {
	*encoder
	buffer mtlCommandBuffer
}

func (c *commands) Release() {
	if c.buffer != 0 {
		defer pool()()
		free(c.buffer)
		c.buffer = 0
		c.d.addAhead(-1)
	}
}

// addAhead adds n to the number of command buffers that are encoded and not committed.
func (d *opened) addAhead(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ahead += n
}

func (d *opened) Submit(of gpu.Commands) error {
	c := of.(*commands)
	for i := range c.lists {
		l := &c.lists[i]
		b := c.buffer
		if b == 0 {
			var err error
			if b, err = d.encode(l.commands); err != nil {
				return err
			}
		} else {
			c.buffer = 0
			d.addAhead(-1)
		}
		d.start(submission{b, c.label, l.marks})
	}
	return nil
}

// start commits the command buffer of a submission and adds the submission to inFlight. It takes over the reference to
// the command buffer.
func (d *opened) start(s submission) {
	defer pool()()
	d.mu.Lock()
	defer d.mu.Unlock()
	commit.to(s.buffer)
	d.inFlight = append(d.inFlight, s)
	d.sent++
}

// dispatchesPerEncoder is the maximum number of dispatches in a compute encoder. Metal's errors name an encoder, so
// small encoders make errors precise. But an encoder costs the processor three messages and a string, and the GPU a gap
// between two dispatches. With 16 dispatches this is little compared to the dispatches themselves, and an error names
// about a layer of a model or less. In a profiled run, each step has a command buffer and so an encoder of its own.
const dispatchesPerEncoder = 16

// labelRange separates the first and the last step in the label of an encoder.
const labelRange = " to "

// labelOf returns the label of a compute encoder whose first command is list[0]: the first and the last step of its
// dispatches.
func labelOf(list []command) string {
	first, last := list[0].bound.label, ""
	for i := 0; i < min(len(list), dispatchesPerEncoder) && list[i].pipeline != nil; i++ {
		last = list[i].bound.label
	}
	if first == last {
		return first
	}
	return first + labelRange + last
}

// encode returns a command buffer with the given commands, which the caller must commit or free. Up to
// dispatchesPerEncoder consecutive dispatches share a compute encoder, which runs them one after the other. Consecutive
// copies and fills share a blit encoder.
func (d *opened) encode(list []command) (mtlCommandBuffer, error) {
	defer pool()()
	b := retained(queueCommandBuffer.to(d.queue, d.settings))
	if b == 0 {
		return 0, diag.New(device.ErrDevice, "metal", "Metal returned no command buffer for %s", d.info.Name)
	}
	var compute mtlComputeCommandEncoder
	var blit mtlBlitCommandEncoder
	var last *pipeline
	dispatches := 0 // in compute
	end := func() {
		for _, e := range []mtlCommandEncoder{mtlCommandEncoder(compute), mtlCommandEncoder(blit)} {
			if e != 0 {
				endEncoding.to(e)
			}
		}
		compute, blit, last, dispatches = 0, 0, nil, 0
	}
	var sizes struct{ groups, threads mtlSize } // passed to Metal by address
	var pin runtime.Pinner
	pin.Pin(&sizes)
	defer pin.Unpin()
	for i := range list {
		c := &list[i]
		if dispatch := c.pipeline != nil; dispatch && (compute == 0 || dispatches == dispatchesPerEncoder) {
			end()
			compute = computeEncoder.to(b)
			setEncoderLabel.to(mtlCommandEncoder(compute), toNSString(labelOf(list[i:])))
		} else if !dispatch && blit == 0 {
			end()
			blit = blitEncoder.to(b)
			setEncoderLabel.to(mtlCommandEncoder(blit), toNSString("copies"))
		}
		if compute == 0 && blit == 0 {
			free(b)
			return 0, diag.New(device.ErrDevice, "metal", "Metal returned no encoder for %s", d.info.Name)
		}
		switch {
		case c.pipeline != nil:
			dispatches++
			if c.pipeline != last {
				last = c.pipeline
				setPipeline.to(compute, last.mtlComputePipelineState)
				if last.shared > 0 {
					setSharedLength.to(compute, nsUInteger(last.shared), 0)
				}
			}
			n := len(c.bound.buffers)
			setBuffers.to(compute, mtlBufferAddress(unsafe.Pointer(&c.bound.buffers[0])),
				nsUIntegerAddress(unsafe.Pointer(&c.bound.offsets[0])), 0, nsRangeLength(n))
			setBytes.to(compute, bytesAddress(unsafe.Pointer(&c.bound.sizes[0])), nsUInteger(4*n), nsUInteger(n))
			sizes.groups, sizes.threads = mtlSize{nsUInteger(c.x), nsUInteger(c.y), 1},
				mtlSize{nsUInteger(last.threads), 1, 1}
			dispatchGroups.to(compute, mtlSizeAddress(unsafe.Pointer(&sizes.groups)),
				mtlSizeAddress(unsafe.Pointer(&sizes.threads)))
		case c.bytes == 0:
		case c.from != nil:
			copyBetweenBuffers.to(blit, c.from.mtlBuffer, nsUInteger(c.fromAt), c.to.mtlBuffer, nsUInteger(c.toAt),
				nsUInteger(c.bytes))
		default:
			fillBuffer.to(blit, c.to.mtlBuffer, nsRangeLocation(c.toAt), nsRangeLength(c.bytes), 0)
		}
	}
	end()
	runtime.KeepAlive(list)
	return b, nil
}

// bindings are the operands of a dispatch, each a range of a buffer. Metal reads the three lists from Go's heap.
type bindings struct {
	buffers []mtlBuffer
	offsets []nsUInteger
	sizes   []uint32 // in bytes; the kernel gets them in its last buffer
	label   string
}

func (*bindings) Release() {}

func (d *opened) Bind(label string, p gpu.Pipeline, pieces []gpu.Piece) (gpu.Bindings, error) {
	if want := p.(*pipeline).buffers; len(pieces) != want {
		return nil, diag.New(device.ErrDevice, label, "%d operands; the kernel has %d", len(pieces), want)
	}
	b := &bindings{label: label}
	for _, p := range pieces {
		b.buffers, b.offsets, b.sizes = append(b.buffers, p.Buffer.(*buffer).mtlBuffer),
			append(b.offsets, nsUInteger(p.Offset)), append(b.sizes, uint32(p.Size))
	}
	return b, nil
}
