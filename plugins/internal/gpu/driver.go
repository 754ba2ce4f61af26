package gpu

import (
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/plugins/wgpu/kernels"
)

// API is a way to use GPUs, such as WebGPU: all that this package must know of it. Errors that users see are *diag.Error, of one line.
type API interface {
	// Name is the backend's. It is the subject of errors.
	Name() string
	// Adapters lists the devices of this machine, best first. One at least, or an error.
	Adapters() ([]Adapter, error)
	// Aborted is closed when the API has failed so that calls of it may never return; why is then the error. A nil channel says that this cannot
	// happen.
	Aborted() (closed <-chan struct{}, why func() error)
}

// Adapter is a device that is not open. All of it is known before it is opened.
type Adapter interface {
	// Info describes it; its ID is the position in the list.
	Info() device.Device
	Limits() Limits
	// Free is how many bytes of its memory are free, 0 if that is unknown.
	Free() int64
	Open() (Device, error)
}

// Limits are what a device allows.
type Limits struct {
	Binding, Buffer int64 // bytes that a binding shows, and bytes of a buffer: multiples of 256
	Bindings        int   // of a shader
	Groups          int   // workgroups in each of two dimensions
	Loops           int   // iterations of all loops of an invocation, after which they end silently; 0 for no limit
	Clock           bool  // NewClock works
	Kernels         kernels.Limits
}

// Device is an open device. Executables on it take turns. While one is loaded, Compile and Bind are called beside NewBuffer, Upload and Exclusive; nothing
// else is called by two goroutines at a time.
type Device interface {
	// Use is called before a turn, and the function that it returns after it.
	Use() (end func())
	// Exclusive calls f, which records and does not wait, while no other goroutine is in a method.
	Exclusive(f func())

	// NewBuffer makes a buffer of zeros. label names it in the error, which is a MemoryError.
	NewBuffer(label string, bytes int64, use Usage) (Buffer, error)
	// Upload copies bytes to a buffer and clears the rest of the last word. The bytes are its own again after Uploaded, which waits.
	Upload(to Buffer, offset int64, data []byte) error
	Uploaded() error
	// Write writes parameters that all that is submitted later reads.
	Write(to Buffer, data []byte) error

	// Compile makes a pipeline of each source. If it fails, the other pipelines may be missing, too.
	Compile(sources []Source) (made []Pipeline, failed int, err error)
	// Bind makes the operands of a dispatch: a piece for each binding of the pipeline.
	Bind(label string, p Pipeline, pieces []Piece) (Bindings, error)

	NewEncoder(label string) (Encoder, error)
	// Submit starts commands after those before, and frees them.
	Submit(Commands) error
	// OnDone has f called, in Poll or Submit, when all that was submitted before has ended.
	OnDone(f func())
	// Poll reports whether all that was submitted has ended, or how it failed.
	Poll() (idle bool, err error)

	// NewClock makes a clock with so many marks; for devices with Limits.Clock.
	NewClock(marks int) (Clock, error)
}

// Usage is what a buffer is for.
type Usage int

const (
	Storage    Usage = iota // shaders read and write it, copies begin and end in it
	Parameters              // shaders read what Write has written
	ToDevice                // the host writes it, copies begin in it
	ToHost                  // copies end in it, the host reads it
)

// Released is what has to be freed.
type Released interface{ Release() }

type (
	// Pipeline is a compiled shader.
	Pipeline Released
	// Bindings are the operands of a dispatch.
	Bindings Released
	// Commands are recorded, and can be submitted once.
	Commands Released
)

// Buffer is memory of a device. The methods but Release are for buffers of usage ToDevice and ToHost.
type Buffer interface {
	Released
	// Map begins to show n bytes to the host; Mapped reports whether it can see them, or how that failed. Only polling gets from one to the other.
	Map(n int64) error
	Mapped() (bool, error)
	// Bytes are the first n bytes, until Unmap. The device uses the buffer only when it is not mapped.
	Bytes(n int64) []byte
	Unmap() error
}

// Piece is a part of a buffer.
type Piece struct {
	Buffer       Buffer
	Offset, Size int64
}

// Source is the input of a pipeline: a complete WGSL text and its number of bindings, of which the parameters are last.
type Source struct {
	Label, Text string
	Bindings    int
}

// Encoder records commands, each of which sees what those before have written. Errors may come with Finish.
type Encoder interface {
	Clear(p Piece) error
	// Copy copies the bytes of a piece to an offset of another buffer. All are whole words.
	Copy(to Buffer, at int64, from Piece) error
	Dispatch(p Pipeline, b Bindings, x, y uint32)
	// Mark has a clock take the time when all before is done. Collect copies the marks to Clock.Ticks.
	Mark(c Clock, k int) error
	Collect(c Clock) error
	// Finish ends the recording, and frees the encoder, as Release does without an end.
	Finish() (Commands, error)
	Released
}

// Clock takes times on a device.
type Clock interface {
	Released
	// Ticks has a little-endian word of 64 bits for each mark, of usage ToHost.
	Ticks() Buffer
	// Bytes is the size of its buffers.
	Bytes() int64
}

// MemoryHint is the hint of errors that say that there is too little memory.
const MemoryHint = "end other programs on the device, choose another with --device, or run with --backend cpu"

// MemoryError is the error of a buffer that cannot be made on a device.
func MemoryError(api, on, label string, bytes int64, why error) error {
	return diag.New(device.ErrMemory, api, "a buffer of %s for %s cannot be made on %s: %w", megabytes(bytes), label, on, why).WithHint(MemoryHint)
}
