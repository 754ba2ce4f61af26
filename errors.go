package rlx

import (
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
)

// Error is the type of the errors of this package and of those for tasks, except for plain context errors. Its fields
// are:
//
//	Code    a stable code such as "RLX4012"; `rlxrun explain CODE` explains it
//	Subject the file, backend, input or option in question; may be empty
//	Msg     what was found and what is allowed
//	Hint    how to fix it; may be empty
//	Err     the cause; may be nil
//
// Compare errors with errors.Is and the values below, or use errors.As with a *Error for the fields.
type Error = diag.Error

// Errors that callers act on, for errors.Is. If a run ends because its context is done, its error also matches the
// cause of the context, such as context.Canceled or context.DeadlineExceeded.
var (
	// ErrUsage reports an option, a request or a prompt that names something that does not exist, or combines what
	// cannot be combined.
	ErrUsage error = diag.Class(2)
	// ErrInput reports an input that is missing, or that has a type, shape or value which the method does not accept.
	ErrInput error = device.ErrInput
	// ErrArtifact reports a file that is not an artifact, is damaged, has a version that is not supported, or was
	// written to while it was used. If the file does not exist, the error matches fs.ErrNotExist.
	ErrArtifact error = diag.Class(4)
	// ErrChanged is a case of ErrArtifact: the file was written to after it was verified. Open it again.
	ErrChanged error = code.ArtifactChanged
	// ErrNoBackend reports that no backend of that name was found.
	ErrNoBackend error = code.Backend
	// ErrLost reports that the backend could not be started, or that its process ended, stopped answering or broke the
	// protocol. The session is unusable. The Model is still usable, and NewSession starts another backend.
	ErrLost error = device.ErrLost
	// ErrClosed is a case of ErrLost: the session was closed.
	ErrClosed error = code.Closed
	// ErrCrashing is a case of ErrLost: the backend crashed three times within a minute before it had completed a run.
	// It is not started again before the minute has passed.
	ErrCrashing error = code.Quarantined
	// ErrDevice reports that the device does not exist or failed, or that the artifact was compiled for another
	// processor.
	ErrDevice error = diag.Class(6)
	// ErrUnsupported reports that the backend does not run an op of the model, or does not have the precision.
	ErrUnsupported error = device.ErrUnsupported
	// ErrMemory reports that a memory limit would be exceeded.
	ErrMemory error = device.ErrMemory
	// ErrState reports a state that is invalid because a run that updates it failed or was cancelled. Reset it, or use
	// another.
	ErrState error = device.ErrState
	// ErrOtherModel reports a file with the state of another artifact, or one that does not name its artifact.
	ErrOtherModel error = code.OtherModel
	// ErrDamaged reports a file with a state whose bytes are not those that Export wrote, or that has no digest of
	// them.
	ErrDamaged error = code.StateDamaged
	// ErrFixedWeight reports a weight that cannot be replaced, because the compiler has computed constants from it.
	ErrFixedWeight error = code.WeightFixed
	// ErrNaN reports that Request.CheckNaN found a NaN, or that the logits of a text contain one.
	ErrNaN error = device.ErrNaN
	// ErrCheck reports that Request.Check found a step that differs from the reference.
	ErrCheck error = code.Check
)

// usage returns an error about an option or a request of the caller.
func usage(subject, msg string, args ...any) *diag.Error {
	return diag.New(diag.Usage, subject, msg, args...)
}
