package rlx

import (
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/task/text"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/plugins/rpc"
)

// An Error is the type of the errors of this package, except for plain context errors. Code is stable (RLX4012); Subject is the
// file, backend, input or option it is about; Hint, which may be empty, is how to fix it. `rlxrun explain CODE` has a paragraph
// on each code. Compare with errors.Is and the errors below; errors.As gets the fields.
type Error = diag.Error

// The errors that callers act on, for errors.Is. If a run ends because its context is done, the error also matches the context's
// cause: context.Canceled, context.DeadlineExceeded.
var (
	// ErrUsage: an option, a request or a prompt names something that does not exist, or combines what cannot be combined.
	ErrUsage error = diag.Class(2)
	// ErrInput: an input is missing, or has another type, shape or value than the method takes.
	ErrInput error = device.ErrInput
	// ErrArtifact: the file is no artifact, is damaged, is of another version, or was written to while it was used. If the file
	// does not exist, the error matches fs.ErrNotExist.
	ErrArtifact error = diag.Class(4)
	// ErrChanged is one case of ErrArtifact: the file was written to after it was verified. Open it again.
	ErrChanged error = format.CodeChanged
	// ErrNoBackend: no backend of that name was found.
	ErrNoBackend error = code.Backend
	// ErrLost: the backend could not be started, or its process ended, stopped answering or broke the protocol. The session is
	// unusable. The Model is still usable, and NewSession starts another backend.
	ErrLost error = device.ErrLost
	// ErrClosed is one case of ErrLost: the session was closed.
	ErrClosed error = rpc.ErrClosed
	// ErrCrashing is one case of ErrLost: the backend crashed three times within a minute, and is not started again before the minute has passed.
	ErrCrashing error = rpc.ErrQuarantined
	// ErrDevice: the device does not exist or reported an error, or the artifact was compiled for another processor.
	ErrDevice error = diag.Class(6)
	// ErrUnsupported: the backend does not run an op of the model, or does not have the precision.
	ErrUnsupported error = device.ErrUnsupported
	// ErrMemory: a limit of memory would be exceeded.
	ErrMemory error = device.ErrMemory
	// ErrState: the state is invalid because a run that updates it failed or was cancelled. Reset it, or use another.
	ErrState error = device.ErrState
	// ErrNaN: Request.CheckNaN found a NaN, or the logits of a text hold one.
	ErrNaN error = device.ErrNaN
	// ErrContext is one case of ErrUsage: a text has more tokens than the model can see.
	ErrContext error = text.CodeContext
	// ErrCheck: Request.Check found a step that differs from the reference.
	ErrCheck error = code.Check
)

// usage is an error of the caller's options or requests.
func usage(subject, msg string, args ...any) *diag.Error {
	return diag.New(diag.Usage, subject, msg, args...)
}
