//go:build linux || darwin

package driver

import (
	"bytes"
	"context"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/program"
)

// mapPages maps memory with the given contents, which begin skip bytes after the start of a page.
func mapPages(t *testing.T, contents []byte, skip int, writable bool) (section []byte, unmap func()) {
	t.Helper()
	size := skip + len(contents)
	all, err := unix.Mmap(-1, 0, size+2*pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	lead := -uintptr(unsafe.Pointer(&all[0])) & (pageSize - 1)
	section = all[lead:][:size][skip:]
	copy(section, contents)
	if !writable {
		if err := unix.Mprotect(all, unix.PROT_READ); err != nil {
			t.Fatal(err)
		}
	}
	return section, func() {
		if err := unix.Munmap(all); err != nil {
			t.Fatal(err)
		}
	}
}

// inPlace is a backend whose programs have their inputs and results in mapped memory. Between runs the memory is filled
// with 0x5a, and check reports writes by command buffers of earlier runs.
type inPlace struct {
	device.Backend
	t *testing.T
}

type inPlaceProgram struct {
	device.Executable
	t     *testing.T
	p     *program.Program
	io    []byte
	unmap func()
}

func (b inPlace) Load(ctx context.Context, l device.Load) (device.Executable, error) {
	io, unmap := mapPages(b.t, bytes.Repeat([]byte{0x5a}, int(l.Program.IOSize)), 0, true)
	l.IO = io
	x, err := b.Backend.Load(ctx, l)
	if err != nil {
		unmap()
		return nil, err
	}
	return &inPlaceProgram{x, b.t, l.Program, io, unmap}, nil
}

func (x *inPlaceProgram) SetWeights(ctx context.Context, w device.NewWeights) error {
	return x.Executable.(device.WeightSetter).SetWeights(ctx, w)
}

func (x *inPlaceProgram) Run(ctx context.Context, r device.Run) (device.Stats, error) {
	if len(r.IO) != len(x.io) {
		return x.Executable.Run(ctx, r)
	}
	x.check()
	theirs := r.IO
	copy(x.io, theirs)
	r.IO = x.io
	stats, err := x.Executable.Run(ctx, r)
	if b, e := x.p.Bind(r.Syms); e == nil { // kernels may write up to the next multiple of program.Align
		for _, o := range b.Outputs {
			end := o.Offset + o.Bytes
			copy(x.io[end:program.AlignUp(end)], theirs[end:])
		}
		for _, f := range r.Feeds {
			if f.Tensor >= 0 && f.Tensor < len(b.Inputs) {
				o := b.Inputs[f.Tensor]
				copy(x.io[o.Offset:program.AlignUp(o.Offset+o.Bytes)], theirs[o.Offset:])
			}
		}
	}
	copy(theirs, x.io)
	for i := range x.io {
		x.io[i] = 0x5a
	}
	return stats, err
}

// check fails the test if the memory was written to since the last run.
func (x *inPlaceProgram) check() {
	if n := bytes.Count(x.io, []byte{0x5a}); n != len(x.io) {
		x.t.Errorf("%s: %d bytes were written after a run", x.p.Method, len(x.io)-n)
	}
}

func (x *inPlaceProgram) Close() error {
	err := x.Executable.Close()
	x.check()
	x.unmap()
	return err
}
