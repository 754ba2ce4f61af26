package driver

import (
	"runtime"
	"unsafe"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
)

// encoder keeps commands in Go until Finish, which encodes all of them for Metal in one autorelease pool. So no encoder of Metal is ever left open.
type encoder struct {
	d     *opened
	label string
	parts []part // the last is under way
}

// part is the contents of a command buffer, and the marks that its end sets.
type part struct {
	commands []command
	marks    []mark
}

// command is a dispatch if it has a pipeline, a copy if it has a source, and otherwise a fill with zeros.
type command struct {
	pipeline *pipeline
	bound    *bindings
	x, y     uint32

	to, from     *buffer
	toAt, fromAt int64
	bytes        int64
}

func (d *opened) NewEncoder(label string) (gpu.Encoder, error) {
	return &encoder{d: d, label: label, parts: make([]part, 1)}, nil
}

func (e *encoder) add(c command) {
	p := &e.parts[len(e.parts)-1]
	p.commands = append(p.commands, c)
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

// Finish encodes the commands, except those that Submit encodes: recordings with marks, which need several command buffers, and all while many command
// buffers wait for Submit. A queue blocks when commandBuffersOfQueue have not ended, so a tape of many parts would otherwise never end.
func (e *encoder) Finish() (gpu.Commands, error) {
	c := &commands{encoder: e}
	e.d.mu.Lock()
	early := len(e.parts) == 1 && len(e.parts[0].marks) == 0 && e.d.ahead < commandBuffersOfQueue/2
	e.d.mu.Unlock()
	if !early {
		return c, nil
	}
	var err error
	if c.buffer, err = e.d.encode(e.parts[0].commands); err != nil {
		return nil, err
	}
	c.d.count(1)
	return c, nil
}

func (e *encoder) Release() {}

// commands is a finished recording. Its buffer is 0 until it is encoded.
type commands struct {
	*encoder
	buffer mtlCommandBuffer
}

func (c *commands) Release() {
	if c.buffer != 0 {
		defer pool()()
		free(c.buffer)
		c.buffer = 0
		c.d.count(-1)
	}
}

// count changes the number of command buffers that are encoded and not committed.
func (d *opened) count(by int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ahead += by
}

func (d *opened) Submit(of gpu.Commands) error {
	c := of.(*commands)
	for i := range c.parts {
		p := &c.parts[i]
		b := c.buffer
		if b == 0 {
			var err error
			if b, err = d.encode(p.commands); err != nil {
				return err
			}
		} else {
			c.buffer = 0
			d.count(-1)
		}
		d.start(submission{b, c.label, p.marks})
	}
	return nil
}

// start commits a command buffer, which belongs to the device from then on.
func (d *opened) start(s submission) {
	defer pool()()
	d.mu.Lock()
	defer d.mu.Unlock()
	commit.to(s.buffer)
	d.inFlight = append(d.inFlight, s)
	d.sent++
}

// dispatchesPerEncoder bounds a compute encoder. Metal's error names an encoder, so fewer dispatches make a more precise error. But each encoder costs the
// processor three messages and a string, and the GPU a gap between two dispatches. With 16, that is a small part of what the dispatches themselves cost, and
// the error names a layer of a model or less. A profile has a command buffer, and so an encoder, for each step.
const dispatchesPerEncoder = 16

// labelRange is between the first and the last step in the label of an encoder.
const labelRange = " to "

// labelOf is the label of the compute encoder that begins with the first of the commands: the steps of its dispatches.
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

// encode makes a command buffer. Dispatches in a row share a compute encoder, up to dispatchesPerEncoder. They run one after the other. Copies and fills in a
// row share a blit encoder.
func (d *opened) encode(list []command) (mtlCommandBuffer, error) {
	defer pool()()
	b := retained(queueCommandBuffer.to(d.queue, d.settings))
	if b == 0 {
		return 0, diag.New(device.ErrDevice, "metal", "%s makes no command buffer", d.info.Name)
	}
	var compute mtlComputeCommandEncoder
	var blit mtlBlitCommandEncoder
	var last *pipeline
	dispatches := 0 // of compute
	end := func() {
		for _, e := range []mtlCommandEncoder{mtlCommandEncoder(compute), mtlCommandEncoder(blit)} {
			if e != 0 {
				endEncoding.to(e)
			}
		}
		compute, blit, last, dispatches = 0, 0, nil, 0
	}
	var sizes struct{ groups, threads mtlSize } // Metal gets their addresses
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
			return 0, diag.New(device.ErrDevice, "metal", "%s makes no encoder", d.info.Name)
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
			setBuffers.to(compute, mtlBufferAddress(unsafe.Pointer(&c.bound.buffers[0])), nsUIntegerAddress(unsafe.Pointer(&c.bound.offsets[0])), 0, nsRangeLength(n))
			setBytes.to(compute, bytesAddress(unsafe.Pointer(&c.bound.sizes[0])), nsUInteger(4*n), nsUInteger(n))
			sizes.groups, sizes.threads = mtlSize{nsUInteger(c.x), nsUInteger(c.y), 1}, mtlSize{nsUInteger(last.threads), 1, 1}
			dispatchGroups.to(compute, mtlSizeAddress(unsafe.Pointer(&sizes.groups)), mtlSizeAddress(unsafe.Pointer(&sizes.threads)))
		case c.bytes == 0:
		case c.from != nil:
			copyBetweenBuffers.to(blit, c.from.mtlBuffer, nsUInteger(c.fromAt), c.to.mtlBuffer, nsUInteger(c.toAt), nsUInteger(c.bytes))
		default:
			fillBuffer.to(blit, c.to.mtlBuffer, nsRangeLocation(c.toAt), nsRangeLength(c.bytes), 0)
		}
	}
	end()
	runtime.KeepAlive(list)
	return b, nil
}

// bindings are the operands of a dispatch: a range of a buffer for each. Metal reads the three lists from Go's heap.
type bindings struct {
	buffers []mtlBuffer
	offsets []nsUInteger
	sizes   []uint32 // in bytes, for the kernel
	label   string
}

func (*bindings) Release() {}

func (d *opened) Bind(label string, p gpu.Pipeline, pieces []gpu.Piece) (gpu.Bindings, error) {
	if want := p.(*pipeline).buffers; len(pieces) != want {
		return nil, diag.New(device.ErrDevice, label, "%d operands; the kernel has %d", len(pieces), want)
	}
	b := &bindings{label: label}
	for _, p := range pieces {
		b.buffers, b.offsets, b.sizes = append(b.buffers, p.Buffer.(*buffer).mtlBuffer), append(b.offsets, nsUInteger(p.Offset)), append(b.sizes, uint32(p.Size))
	}
	return b, nil
}
