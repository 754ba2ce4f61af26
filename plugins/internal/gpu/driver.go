package gpu

import (
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

// API is a graphics API, such as WebGPU or Metal. Its errors reach users: they are *diag.Error with messages of one
// line.
type API interface {
	// Name is the name of the backend, such as "wgpu". Error messages begin with it.
	Name() string
	// Adapters lists the devices of this machine, best first. It returns an error if the machine has no device.
	Adapters() ([]Adapter, error)
	// Aborted returns a channel that is closed when the API has failed in such a way that calls may block forever.
	// After that, why returns the error. If this cannot happen, Aborted returns nil.
	Aborted() (closed <-chan struct{}, why func() error)
}

// Adapter is a device of this machine, which Open opens.
type Adapter interface {
	// Info describes the device. It leaves ID empty; Backend sets it to the position in the list of adapters.
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
	// loop iterations of an invocation in total, after which the device silently ends its loops; 0 for no limit
	Loops int
	Clock bool // NewClock is supported
	// page size in bytes if the Device is an InPlace; 0 if it is not, or cannot use memory of the host
	Page    int64
	Kernels kernels.Limits
	// Precisions of products and attention besides f32; see device.Load.Precision
	Precisions []string
	// Commands are Kept, and submitting them again takes no time for each dispatch
	Keeps   bool
	Shaders int // run only so many shaders of each step, to time them; 0 means all
}

// Device is an open device, which all executables on it share. Calls are serialised, with one exception: while a
// program is loaded, one goroutine calls NewBuffer, Upload and Uploaded while another one calls Compile, Bind and
// Exclusive.
type Device interface {
	// Use is called before a series of calls, such as a load or a run. The caller calls end after the last of them.
	Use() (end func())
	// Exclusive calls f while no other goroutine is in a method of the device. f may record commands, but must not wait
	// for the device.
	Exclusive(f func())

	// NewBuffer allocates a buffer and zeroes it. If there is no memory, the error is a MemoryError with the label.
	NewBuffer(label string, bytes int64, use Usage) (Buffer, error)
	// Upload copies data to a buffer. If data ends within a word of 4 bytes, the rest of that word is cleared. Upload
	// may keep data until Uploaded returns. Uploaded blocks until the device has read all of it.
	Upload(to Buffer, offset int64, data []byte) error
	Uploaded() error
	// Write writes data to the beginning of a buffer of usage Parameters. All later submissions see it; earlier ones do
	// not.
	Write(to Buffer, data []byte) error

	// Compile compiles the sources to pipelines; made[i] belongs to sources[i]. If a source cannot be compiled, failed
	// is its index. Then made contains the pipelines that were compiled before the error, and nil for others; it may be
	// shorter than sources.
	Compile(sources []Source) (made []Pipeline, failed int, err error)
	// Bind makes the operands of a dispatch, with one piece for each binding of the pipeline, in order. label names the
	// step in errors.
	Bind(label string, p Pipeline, pieces []Piece) (Bindings, error)

	NewEncoder(label string) (Encoder, error)
	// Submit queues commands to run after all earlier submissions. It releases them, even if it fails, unless they are
	// kept.
	Submit(Commands) error
	// OnDone registers a callback. A later Poll or Submit calls f once everything that was submitted before OnDone has
	// ended.
	OnDone(f func())
	// Poll does not block. It calls the callbacks of OnDone that are due, completes requests of Map, and reports
	// whether all submissions have ended. If a submission failed, Poll returns its error.
	Poll() (idle bool, err error)

	// NewClock makes a clock for the given number of times. It is called only if Limits.Clock is set.
	NewClock(marks int) (Clock, error)
}

// InPlace is implemented by a Device that can use mapped memory of the host as a buffer, without copies.
type InPlace interface {
	// Over makes a buffer over mapped memory that begins at a page boundary. The buffer ends with the last page of the
	// memory. Commands must not write to it unless the memory is writable. The host sees their writes after they have
	// ended. The memory must stay mapped until the buffer is released and all submissions have ended.
	Over(label string, memory []byte) (Buffer, error)
}

// Translator is implemented by an Adapter that can do a part of Device.Compile before its device is open.
type Translator interface {
	// Translate prepares a later call of Device.Compile with these sources while the device is being opened. It
	// returns no error; Compile does.
	Translate(sources []Source)
}

// Pinner is implemented by a Device that can pin memory of the host, and copy from and to it.
type Pinner interface {
	// Pin makes a buffer of mapped memory, which begins at a page boundary, for Encoder.Copy alone. The memory must
	// stay mapped until the buffer is released.
	Pin(memory []byte) (Buffer, error)
}

// Usage is the purpose of a buffer.
type Usage int

const (
	Storage    Usage = iota // read and written by shaders and copies
	Parameters              // written by Device.Write, read by shaders
	ToDevice                // written by the host, read by copies
	ToHost                  // written by copies, read by the host
)

// Released is a resource that its owner must release.
type Released interface{ Release() }

type (
	// Pipeline is a compiled shader.
	Pipeline Released
	// Bindings are the operands of a dispatch.
	Bindings Released
	// Commands are a finished recording, which can be submitted once, unless it is Kept.
	Commands Released
)

// Kept is implemented by Commands that can be submitted several times. After Keep, Submit does not release them.
type Kept interface {
	Commands
	Keep()
}

// Buffer is memory of a device. Buffers of usage ToDevice and ToHost can be mapped; others have only Release. Between
// Map and Unmap no submission may use the buffer.
type Buffer interface {
	Released
	// Map requests access to the first n bytes for the host. The request completes in Poll, after the submissions that
	// use the buffer have ended.
	Map(n int64) error
	// Mapped reports whether the request has completed. If the request or a submission failed, Mapped returns its
	// error.
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
	Bindings    int    // number of bindings; the last one holds the parameters
}

// Encoder records commands. They run in order, and each sees the writes of earlier ones. Finish may return the error of
// an earlier method.
type Encoder interface {
	// Clear sets a piece to zero.
	Clear(p Piece) error
	// Copy copies a piece to offset at of another buffer. Offsets and size are multiples of 4.
	Copy(to Buffer, at int64, from Piece) error
	// Dispatch runs x*y workgroups of a pipeline.
	Dispatch(p Pipeline, b Bindings, x, y uint32)
	// Mark records a command that stores the time at which the earlier commands have ended as time k of a clock.
	Mark(c Clock, k int) error
	// Collect records a copy of all times to Clock.Ticks.
	Collect(c Clock) error
	// Finish ends the recording and releases the encoder, even if it fails. Release discards a recording instead.
	Finish() (Commands, error)
	Released
}

// Clock measures times on a device.
type Clock interface {
	Released
	// Ticks returns a buffer of usage ToHost that holds the times as little-endian uint64, in a unit of the device.
	Ticks() Buffer
	// Bytes returns the size of the clock's buffers.
	Bytes() int64
}

// MemoryHint is the hint of errors for too little device memory.
const MemoryHint = "end other programs on the device, choose another with --device, or run with --backend cpu"

// MemoryError returns a device.ErrMemory for a buffer that cannot be allocated. api is the name of the API, and on the
// name of the device.
func MemoryError(api, on, label string, bytes int64, why error) error {
	return diag.New(device.ErrMemory, api, "a buffer of %s for %s cannot be allocated on %s: %w", megabytes(bytes),
		label, on, why).WithHint(MemoryHint)
}
