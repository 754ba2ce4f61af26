package shim

import (
	"errors"
	"fmt"
	"sync"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/plugins/cuda/ptx"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
)

// opened is an open device. Submit runs commands before it returns.
type opened struct {
	opts    Options
	mu      sync.Mutex         // held by submissions, and by what makes and releases buffers
	buffers map[uint64]*buffer // by the upper bits of their addresses
	next    uint64
	done    []func() // callbacks that are due
	err     error    // of the first submission that failed; nil once it has been reported
}

// The low offsetBits bits of an address are the offset in a buffer. The others are the number of the buffer, so an
// address beyond a buffer never belongs to another.
const offsetBits = 36

// mostMemory is the size of the device's memory.
const mostMemory = 16 << 30

func newDevice(opts Options) *opened {
	return &opened{opts: opts, buffers: map[uint64]*buffer{}, next: 1}
}

func (d *opened) Use() (end func())  { return func() {} }
func (d *opened) Exclusive(f func()) { f() }

// buffer is memory of the device.
type buffer struct {
	d      *opened
	number uint64
	data   []byte
}

func (b *buffer) address() uint64 { return b.number << offsetBits }

func (d *opened) NewBuffer(label string, bytes int64, _ gpu.Usage) (gpu.Buffer, error) {
	if bytes > mostMemory {
		return nil, gpu.MemoryError("cuda", "the shim", label, bytes, errors.New("its memory is smaller"))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	b := &buffer{d: d, number: d.next, data: make([]byte, (bytes+15)&^15)}
	d.buffers[b.number] = b
	d.next++
	return b, nil
}

func (b *buffer) Release() {
	b.d.mu.Lock()
	defer b.d.mu.Unlock()
	delete(b.d.buffers, b.number)
	b.data = nil
}

func (b *buffer) Map(int64) error       { return nil }
func (b *buffer) Mapped() (bool, error) { return true, b.d.failed() }
func (b *buffer) Bytes(n int64) []byte  { return b.data[:n:n] }
func (b *buffer) Unmap() error          { return nil }

func (d *opened) Upload(to gpu.Buffer, offset int64, data []byte) error {
	b := to.(*buffer).data[offset : offset+int64(len(data)+3)&^3]
	clear(b[copy(b, data):])
	return nil
}

func (d *opened) Uploaded() error { return nil }

func (d *opened) Write(to gpu.Buffer, data []byte) error { return d.Upload(to, 0, data) }

// pipeline is a kernel that the device can run.
type pipeline struct{ *program }

func (pipeline) Release() {}

func (d *opened) Compile(sources []gpu.Source) (made []gpu.Pipeline, failed int, err error) {
	for i, s := range sources {
		k, err := d.translate(s.Text)
		if err != nil {
			return made, i, fmt.Errorf("%w, of\n%s", err, s.Text)
		}
		if d.opts.Compiled != nil {
			d.opts.Compiled(s.Text, k.Text)
		}
		p, err := assemble(k, s.Bindings)
		if err != nil {
			return made, i, fmt.Errorf("%w, of\n%s", err, k.Text)
		}
		made = append(made, pipeline{p})
	}
	return made, 0, nil
}

func (d *opened) translate(source string) (*ptx.Kernel, error) {
	if d.opts.PTX != nil {
		if k, ok := d.opts.PTX(source); ok {
			return k, nil
		}
	}
	return ptx.Translate(source)
}

// bindings are the pieces of a dispatch.
type bindings []gpu.Piece

func (bindings) Release() {}

func (d *opened) Bind(label string, p gpu.Pipeline, pieces []gpu.Piece) (gpu.Bindings, error) {
	if n := p.(pipeline).buffers; n != len(pieces) {
		return nil, errorf("%s: %d pieces for %d bindings", label, len(pieces), n)
	}
	return bindings(pieces), nil
}

func (d *opened) Submit(c gpu.Commands) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range c.(commands) {
		if err := f(); err != nil {
			if d.err == nil {
				d.err = err
			}
			return nil // Poll reports it
		}
	}
	return nil
}

func (d *opened) OnDone(f func()) { d.done = append(d.done, f) }

func (d *opened) Poll() (idle bool, err error) {
	due := d.done
	d.done = nil
	for _, f := range due {
		f()
	}
	return true, d.failed()
}

// failed returns and clears the error of a submission.
func (d *opened) failed() error {
	err := d.err
	d.err = nil
	return err
}

func (d *opened) NewClock(int) (gpu.Clock, error) {
	return nil, diag.New(device.ErrUnsupported, "cuda", "the shim has no clock")
}

// commands are functions that run in order.
type commands []func() error

func (commands) Release() {}

// encoder records commands.
type encoder struct {
	d    *opened
	list commands
}

func (d *opened) NewEncoder(string) (gpu.Encoder, error) { return &encoder{d: d}, nil }

func (e *encoder) Clear(p gpu.Piece) error {
	e.list = append(e.list, func() error {
		clear(p.Buffer.(*buffer).data[p.Offset : p.Offset+p.Size])
		return nil
	})
	return nil
}

func (e *encoder) Copy(to gpu.Buffer, at int64, from gpu.Piece) error {
	e.list = append(e.list, func() error {
		copy(to.(*buffer).data[at:], from.Buffer.(*buffer).data[from.Offset:from.Offset+from.Size])
		return nil
	})
	return nil
}

func (e *encoder) Dispatch(p gpu.Pipeline, b gpu.Bindings, x, y uint32) {
	e.list = append(e.list, func() error { return e.d.launch(p.(pipeline).program, b.(bindings), x, y) })
}

func (e *encoder) Mark(gpu.Clock, int) error     { return nil }
func (e *encoder) Collect(gpu.Clock) error       { return nil }
func (e *encoder) Finish() (gpu.Commands, error) { return e.list, nil }
func (e *encoder) Release()                      {}
