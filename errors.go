package rlx

import (
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/plugins/rpc"
)

// An Error is what this package returns, except for errors of a context that come alone. Code is stable (RLX4012); Subject is the
// file, backend, input or option it is about; Hint, which may be empty, says how to mend it. `rlxrun explain CODE` has a paragraph
// on each code. Compare with errors.Is and the errors below; errors.As gives the parts.
type Error = diag.Error

// What callers act on, for errors.Is. A run that ends because its context is over gives an error that matches the context's cause
// as well: context.Canceled, context.DeadlineExceeded.
var (
	// ErrUsage: an option, a request or a prompt names something that is not there, or asks for things that exclude each other.
	ErrUsage error = diag.Class(2)
	// ErrInput: an input is missing, or has another type, shape or value than the method takes.
	ErrInput error = device.ErrInput
	// ErrArtifact: the file is no artifact, is damaged, is of another version, or was written to while it was used. A file that is
	// not there is an error that matches fs.ErrNotExist.
	ErrArtifact error = diag.Class(4)
	// ErrChanged is one case of ErrArtifact: somebody wrote to the file after it was verified. Open it again.
	ErrChanged error = format.CodeChanged
	// ErrNoBackend: no backend of that name was found.
	ErrNoBackend error = code.Backend
	// ErrLost: the backend could not be started, or its process ended, stopped answering or broke the protocol. The session is of no
	// more use; the Model is in order, and NewSession starts another backend.
	ErrLost error = device.ErrLost
	// ErrClosed is one case of ErrLost: the session was closed.
	ErrClosed error = rpc.ErrClosed
	// ErrCrashing is one case of ErrLost: the backend crashed three times within a minute, and is not started until that is over.
	ErrCrashing error = rpc.ErrQuarantined
	// ErrDevice: the device is not there, or reported an error, or its processor is not what the artifact was compiled for.
	ErrDevice error = diag.Class(6)
	// ErrUnsupported: the backend does not run an op of the model, or does not have the precision.
	ErrUnsupported error = device.ErrUnsupported
	// ErrMemory: a limit of memory would be passed.
	ErrMemory error = device.ErrMemory
	// ErrState: a run that failed or was cancelled left the state in its middle. Reset it, or use another.
	ErrState error = device.ErrState
	// ErrNaN: Request.CheckNaN found a NaN.
	ErrNaN error = device.ErrNaN
	// ErrCheck: Request.Check found a step that differs from the reference.
	ErrCheck error = code.Check
)

// usage is an error of the caller's options or requests.
func usage(subject, msg string, args ...any) *diag.Error {
	return diag.New(diag.Usage, subject, msg, args...)
}
