package gpu

import (
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/plugins/wgpu/kernels"
)

// API is a graphics API, such as WebGPU or Metal. Errors that reach users are *diag.Error with a message of one line.
type API interface {
	// Name is the name of the backend, such as "wgpu". Error messages begin with it.
	Name() string
	// Adapters lists the devices of this machine, best first. It returns an error if there are none.
	Adapters() ([]Adapter, error)
	// Aborted returns a channel that is closed when the API has failed in a way that leaves calls blocked forever. After that, why returns the
	// reason. An API that never fails like this returns a nil channel.
	Aborted() (closed <-chan struct{}, why func() error)
}

// Adapter is a device that need not be open yet. Only Open opens it.
type Adapter interface {
	// Info describes the device. The caller sets ID, to the position in the list of adapters.
	Info() device.Device
	Limits() Limits
	// Free returns the free memory of the device in bytes, or 0 if it is unknown.
	Free() int64
	Open() (Device, error)
}

// Limits are the limits of a device.
type Limits struct {
	Binding, Buffer int64 // largest binding and largest buffer, in bytes; multiples of 256
	Bindings        int   // bindings of a shader
	Groups          int   // workgroups of a dispatch, in each of two dimensions
	Loops           int   // loop iterations of an invocation in total, after which the device silently ends them; 0 for no limit
	Clock           bool  // NewClock is supported
	Page            int64 // the Device is an InPlace, for whole pages of so many bytes; 0 if it is not
	Kernels         kernels.Limits
}

// Device is an open device, which all executables on it share. Calls are serialised, with one exception: while a program is loaded, one goroutine
// calls NewBuffer, Upload and Uploaded while another one calls Compile, Bind and Exclusive.
type Device interface {
	// Use is called before a series of calls, such as a load or a run. The caller calls end after the last of them.
	Use() (end func())
	// Exclusive calls f while no other goroutine is in a method of the device. f may record commands; it does not wait for the device.
	Exclusive(f func())

	// NewBuffer allocates a buffer, which is zero. The error is a MemoryError that contains label.
	NewBuffer(label string, bytes int64, use Usage) (Buffer, error)
	// Upload copies data to a buffer. If data ends within a word of 4 bytes, the rest of that word is cleared. Upload may keep data until Uploaded
	// returns. Uploaded blocks until the device has read all of it.
	Upload(to Buffer, offset int64, data []byte) error
	Uploaded() error
	// Write writes data to the beginning of a buffer of usage Parameters. All later submissions see it; earlier ones do not.
	Write(to Buffer, data []byte) error

	// Compile makes a pipeline of each source. If one cannot be compiled, failed is its index; made then has the pipelines that are finished,
	// at the indices of their sources, and nil elsewhere.
	Compile(sources []Source) (made []Pipeline, failed int, err error)
	// Bind makes the operands of a dispatch, with one piece for each binding of the pipeline, in order. label names the step, for errors.
	Bind(label string, p Pipeline, pieces []Piece) (Bindings, error)

	NewEncoder(label string) (Encoder, error)
	// Submit queues commands, which run after those submitted before. It releases them, also if it fails.
	Submit(Commands) error
	// OnDone registers a callback. A later Poll or Submit calls f once everything submitted before OnDone has ended.
	OnDone(f func())
	// Poll returns at once. It calls callbacks of OnDone that are due, completes Map, and reports whether everything submitted has ended. The
	// error says how a submission failed.
	Poll() (idle bool, err error)

	// NewClock makes a clock with room for that many times. It is called only if Limits.Clock is set.
	NewClock(marks int) (Clock, error)
}

// InPlace is a Device that uses memory of the host as a buffer, without a copy.
type InPlace interface {
	// Over makes a buffer over mapped memory, which begins at a page. The buffer ends with the memory's last page. Commands write to it only if the memory is
	// writable. The host sees what they wrote once they have ended. The memory must stay mapped until the buffer is released and all submissions have ended.
	Over(label string, memory []byte) (Buffer, error)
}

// Usage is the purpose of a buffer.
type Usage int

const (
	Storage    Usage = iota // shaders read and write it; source and destination of copies
	Parameters              // Write writes it, shaders read it
	ToDevice                // the host writes it; source of copies
	ToHost                  // destination of copies; the host reads it
)

// Released is a resource that its owner must release.
type Released interface{ Release() }

type (
	// Pipeline is a compiled shader.
	Pipeline Released
	// Bindings are the operands of a dispatch.
	Bindings Released
	// Commands are a finished recording. They can be submitted once.
	Commands Released
)

// Buffer is memory of a device. Buffers of usage ToDevice and ToHost can be mapped; others have only Release. Between Map and Unmap no
// submission may use the buffer.
type Buffer interface {
	Released
	// Map asks for access to the first n bytes by the host. The request completes in Poll, when the submissions that use the buffer have ended.
	// Mapped reports whether it has completed, or the error.
	Map(n int64) error
	Mapped() (bool, error)
	// Bytes returns the first n bytes of a mapped buffer. They are valid until Unmap.
	Bytes(n int64) []byte
	Unmap() error
}

// Piece is a range of a buffer, in bytes.
type Piece struct {
	Buffer       Buffer
	Offset, Size int64
}

// Source is a shader to compile.
type Source struct {
	Label, Text string // Text is WGSL
	Bindings    int    // the last one holds the parameters
}

// Encoder records commands. They run in order, and each sees what those before it wrote. An error of a command may be returned as late as by
// Finish.
type Encoder interface {
	// Clear sets a piece to zero.
	Clear(p Piece) error
	// Copy copies a piece to offset at of another buffer. Offsets and size are multiples of 4.
	Copy(to Buffer, at int64, from Piece) error
	// Dispatch runs x*y workgroups of a pipeline.
	Dispatch(p Pipeline, b Bindings, x, y uint32)
	// Mark stores the current time as time k of a clock, when the commands before it have ended. Collect copies all times to Clock.Ticks.
	Mark(c Clock, k int) error
	Collect(c Clock) error
	// Finish ends the recording and releases the encoder, also if it fails. Release discards a recording instead.
	Finish() (Commands, error)
	Released
}

// Clock measures times on a device.
type Clock interface {
	Released
	// Ticks returns the buffer, of usage ToHost, in which each time is a little-endian uint64. The unit is the device's.
	Ticks() Buffer
	// Bytes returns the size of the clock's buffers.
	Bytes() int64
}

// MemoryHint is the hint of errors about too little memory.
const MemoryHint = "end other programs on the device, choose another with --device, or run with --backend cpu"

// MemoryError returns the error for a buffer that cannot be allocated. api is the name of the API, on that of the device.
func MemoryError(api, on, label string, bytes int64, why error) error {
	return diag.New(device.ErrMemory, api, "a buffer of %s for %s cannot be made on %s: %w", megabytes(bytes), label, on, why).WithHint(MemoryHint)
}
