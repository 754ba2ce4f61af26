package driver

import (
	"runtime"
	"unsafe"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
)

// encoder records commands in Go. Submit puts them into the stream.
type encoder struct {
	d     *opened
	label string
	list  []command
}

// command is a dispatch if pipeline is set, a time if clock is, a copy if from is, and otherwise a fill with zeros.
type command struct {
	pipeline *pipeline
	bound    *bindings
	x, y     uint32

	clock *clock
	mark  int

	to, from uintptr
	bytes    int64
	beside   bool // a copy in the stream beside
}

func (d *opened) NewEncoder(label string) (gpu.Encoder, error) {
	return &encoder{d: d, label: label}, nil
}

func (e *encoder) Clear(p gpu.Piece) error {
	e.list = append(e.list, command{to: p.Buffer.(*buffer).at + uintptr(p.Offset), bytes: p.Size})
	return nil
}

func (e *encoder) Copy(to gpu.Buffer, at int64, from gpu.Piece) error {
	e.list = append(e.list, command{to: to.(*buffer).at + uintptr(at),
		from: from.Buffer.(*buffer).at + uintptr(from.Offset), bytes: from.Size})
	return nil
}

// CopyBeside implements gpu.Beside.
func (e *encoder) CopyBeside(to gpu.Buffer, at int64, from gpu.Piece) error {
	if err := e.Copy(to, at, from); err != nil {
		return err
	}
	e.list[len(e.list)-1].beside = true
	return nil
}

func (e *encoder) Dispatch(p gpu.Pipeline, b gpu.Bindings, x, y uint32) {
	e.list = append(e.list, command{pipeline: p.(*pipeline), bound: b.(*bindings), x: x, y: y})
}

func (e *encoder) Mark(c gpu.Clock, k int) error {
	e.list = append(e.list, command{clock: c.(*clock), mark: k})
	return nil
}

// Collect does nothing: the times are those of events.
func (e *encoder) Collect(gpu.Clock) error { return nil }

func (e *encoder) Finish() (gpu.Commands, error) { return &commands{encoder: e}, nil }
func (e *encoder) Release()                      {}

// commands is a finished recording. If it is kept, its first submission makes a graph of it while the device works, and
// later ones launch that as a whole.
type commands struct {
	*encoder
	kept  bool
	graph uintptr // CUgraphExec; 0 for none
}

func (c *commands) Keep() { c.kept = true }

func (c *commands) Release() {
	if c.graph != 0 {
		defer c.d.enter()()
		c.d.call(cuGraphExecDestroy, c.graph)
		c.graph = 0
	}
}

func (d *opened) Submit(of gpu.Commands) error {
	c := of.(*commands)
	if err := d.feeder.flush(); err != nil {
		return err
	}
	defer d.enter()()
	if c.graph != 0 {
		if r := d.call(cuGraphLaunch, c.graph, d.stream); r != success {
			return d.failure("launching "+c.label, r)
		}
	} else if err := c.put(); err != nil {
		return err
	}
	if err := d.end(); err != nil {
		return err
	}
	if c.kept && c.graph == 0 && len(c.list) > 1 {
		c.kept = c.makeGraph() == nil // without a graph, commands are put into the stream one by one
	}
	return nil
}

// put puts the commands into the stream one by one.
func (c *commands) put() error {
	d := c.d
	behind, beside := true, false // the stream beside does not wait for all commands so far; it has copies
	for i := range c.list {
		k := &c.list[i]
		if k.beside && behind {
			if err := d.openBeside(); err != nil {
				return err
			}
			if err := d.follow(d.beside, d.stream, d.forked); err != nil {
				return err
			}
		}
		behind, beside = !k.beside, beside || k.beside
		if what, r := d.put(k); r != success {
			return d.failure(what, r)
		}
	}
	runtime.KeepAlive(c)
	if beside {
		return d.follow(d.stream, d.beside, d.joined)
	}
	return nil
}

// openBeside makes the stream beside, unless it exists.
func (d *opened) openBeside() (err error) {
	if d.beside != 0 {
		return nil
	}
	if d.forked, err = d.newEvent(eventUntimed); err != nil {
		return err
	}
	if d.joined, err = d.newEvent(eventUntimed); err != nil {
		return err
	}
	stream := made[uintptr]()
	if r := d.call(cuStreamCreate, address(stream), streamNonBlocking); r != success {
		return d.failure("making a stream", r)
	}
	d.beside = *stream
	return nil
}

// follow makes what is put into a stream from now on wait for what is in another one, by an event.
func (d *opened) follow(stream, other, event uintptr) error {
	r := d.call(cuEventRecord, event, other)
	if r == success {
		r = d.call(cuStreamWaitEvent, stream, event, 0)
	}
	return d.check("a copy", r)
}

// put puts a command into the stream. what describes it, for errors.
func (d *opened) put(c *command) (what string, r result) {
	switch {
	case c.pipeline != nil:
		return c.bound.label, d.launch(c)
	case c.clock != nil:
		c.clock.seen[c.mark] = true
		return "measuring time", d.call(cuEventRecord, c.clock.events[c.mark], d.stream)
	case c.bytes == 0:
		return "", success
	case c.from != 0:
		stream := d.stream
		if c.beside {
			stream = d.beside
		}
		return "a copy", d.call(cuMemcpyAsync, c.to, c.from, uintptr(c.bytes), stream)
	}
	return "clearing memory", d.call(cuMemsetD8Async, c.to, 0, uintptr(c.bytes), d.stream)
}

// launchConfig is a CUlaunchConfig with one attribute.
type launchConfig struct {
	grid, block [3]uint32
	shared      uint32
	stream      uintptr
	attributes  uintptr
	count       uint32
	attribute   struct {
		id    uint32
		_     uint32
		value [16]uint32
	}
}

// attributeOverlap says that a kernel may be launched before the one before it in the stream has ended. It waits for
// that itself: see overlapping.
const attributeOverlap = 6

func (d *opened) launch(c *command) result {
	k, arguments := c.pipeline, uintptr(unsafe.Pointer(&c.bound.pointers[0]))
	if !k.overlaps {
		return d.call(cuLaunchKernel, k.function, uintptr(c.x), uintptr(c.y), 1, uintptr(k.threads), 1, 1,
			uintptr(k.shared), d.stream, arguments, 0)
	}
	l := &d.config
	l.grid, l.block = [3]uint32{c.x, c.y, 1}, [3]uint32{uint32(k.threads), 1, 1}
	l.shared, l.stream = uint32(k.shared), d.stream
	l.attributes, l.count = address(&l.attribute), 1
	l.attribute.id, l.attribute.value[0] = attributeOverlap, 1
	return d.call(cuLaunchKernelEx, address(l), k.function, arguments, 0)
}

// captureRelaxed is for captures during which other threads may make any calls.
const captureRelaxed = 2

// makeGraph makes a graph of the commands.
func (c *commands) makeGraph() error {
	d := c.d
	what := "making a graph of " + c.label
	if err := d.check(what, d.call(cuStreamBeginCapture, d.stream, captureRelaxed)); err != nil {
		return err
	}
	put := c.put()
	graph, executable := made[uintptr](), made[uintptr]()
	r := d.call(cuStreamEndCapture, d.stream, address(graph))
	if put != nil {
		return put
	}
	if r != success {
		return d.failure(what, r)
	}
	defer d.call(cuGraphDestroy, *graph)
	if r := d.call(cuGraphInstantiate, address(executable), *graph, 0); r != success {
		return d.failure(what, r)
	}
	c.graph = *executable
	return nil
}

// bindings are the arguments of a dispatch: for each piece its address and its size in bytes.
type bindings struct {
	label    string
	values   []uint64
	pointers []uintptr // addresses of values
}

func (*bindings) Release() {}

func (d *opened) Bind(label string, p gpu.Pipeline, pieces []gpu.Piece) (gpu.Bindings, error) {
	if want := p.(*pipeline).bindings; len(pieces) != want {
		return nil, diag.New(device.ErrDevice, label, "%d operands; the kernel has %d", len(pieces), want)
	}
	b := &bindings{label, make([]uint64, 2*len(pieces)), make([]uintptr, 2*len(pieces))}
	for i, p := range pieces {
		b.values[2*i], b.values[2*i+1] = uint64(p.Buffer.(*buffer).at)+uint64(p.Offset), uint64(p.Size)
	}
	for i := range b.values {
		b.pointers[i] = address(&b.values[i])
	}
	return b, nil
}
