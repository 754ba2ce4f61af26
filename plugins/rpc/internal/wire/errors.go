package wire

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// StepError describes the step at which a run failed. Errors of Run wrap one if the step is known.
type StepError struct {
	Step, Steps int    // Step counts from 1; Steps is the total, or 0 if unknown
	Op          string // name of the step's op
	Name        string // of the step's node; may be empty
	Result      int    // index of the result in which a NaN was found
}

func (e *StepError) Error() string {
	s := fmt.Sprintf("step %d", e.Step)
	if e.Steps > 0 {
		s += fmt.Sprintf(" of %d", e.Steps)
	}
	if what := strings.TrimSpace(e.Op + " " + e.Name); what != "" {
		s += " (" + what + ")"
	}
	return s
}

// LastStep returns the text of the error, for callers that cannot name its type.
func (e *StepError) LastStep() string { return e.Error() }

const maxErrorText = 2 << 10 // bytes per field of an error on the wire

// ToStatus converts a backend's error to a gRPC status that carries its code and fields. If at is nil or has no step,
// the step is taken from a StepError in the error's chain.
func ToStatus(err error, at *StepError) error {
	if err == nil {
		return nil
	}
	w := &rlxv1.Error{}
	var d *diag.Error
	switch {
	case errors.As(err, &d):
		w.Code, w.Subject, w.Message, w.Hint = string(d.Code), d.Subject, d.Msg, d.Hint
	case errors.Is(err, context.Canceled):
		w.Code, w.Message = string(diag.Interrupted), "the run was cancelled"
	default:
		w.Code, w.Message = string(device.ErrDevice), err.Error()
		if c, ok := diag.CodeOf(err); ok {
			w.Code = string(c)
		}
	}
	if c := diag.Code(w.Code); !allowedCode(c) {
		// The backend has a bug, or the error comes from another library. An unknown code would end the session.
		w.Code = string(diag.Internal)
		if c.Exit() == device.ErrInput.Exit() {
			w.Code = string(device.ErrInput)
		}
		w.Message += " (" + c.Error() + ")"
	}
	if at == nil || at.Step == 0 {
		errors.As(err, &at)
	}
	if at != nil {
		w.Step, w.Op, w.Result = int32(at.Step), at.Op, int32(at.Result)
	}
	w.Subject, w.Message, w.Hint, w.Op = Clean(w.Subject), Clean(w.Message), Clean(w.Hint), Clean(w.Op)
	st, derr := status.New(grpcCode(diag.Code(w.Code)), w.Message).WithDetails(w)
	if derr != nil {
		return status.Error(codes.Internal, w.Message)
	}
	return st.Err()
}

// grpcCode returns a gRPC code for generic gRPC tools. Hosts read the error detail instead.
func grpcCode(c diag.Code) codes.Code {
	switch c {
	case diag.Interrupted:
		return codes.Canceled
	case device.ErrInput:
		return codes.InvalidArgument
	case device.ErrUnsupported:
		return codes.Unimplemented
	case device.ErrMemory:
		return codes.ResourceExhausted
	case code.Refused:
		return codes.FailedPrecondition
	}
	return codes.Internal
}

// FromStatus rebuilds the error that a backend sent with a status. ok is false if the status has no valid detail. Then
// either the transport failed or the backend violated the protocol.
func FromStatus(st *status.Status, backend string) (err *diag.Error, ok bool) {
	for _, d := range st.Details() {
		w, is := d.(*rlxv1.Error)
		if !is || !allowedCode(diag.Code(w.Code)) {
			continue
		}
		e := &diag.Error{Code: diag.Code(w.Code), Subject: backend, Msg: Clean(w.Message), Hint: Clean(w.Hint)}
		own := w.Step > 0 && w.Op != "" && strings.HasPrefix(w.Subject, w.Op+" ") // the host names the step and its op
		if s := Clean(w.Subject); s != "" && s != backend && "backend "+s != backend && !own {
			e.Msg = s + ": " + e.Msg
		}
		if w.Step > 0 {
			e.Err = &StepError{Step: int(w.Step), Op: Clean(w.Op), Result: int(w.Result)}
		}
		if aboutValues(e.Code) {
			e.Err = errors.Join(e.Err, device.ErrInput)
		}
		return e, true
	}
	return nil, false
}

// allowedCode reports whether a backend may send a code. Only the host reports errors about the artifact (class 4), the
// command line (class 2, except the backend's own options) and the backend's process (class 5, except code.Panicked and
// code.Refused).
func allowedCode(c diag.Code) bool {
	if len(c) != 7 || !strings.HasPrefix(string(c), "RLX") || strings.Trim(string(c[3:]), "0123456789") != "" {
		return false
	}
	switch c {
	case diag.Interrupted, device.ErrNaN, device.ErrInput, code.Panicked, code.Refused, diag.Internal:
		return true
	}
	return c[3] >= '6' && c[3] <= '8' || aboutValues(c) || strings.HasPrefix(string(c), "RLX21")
}

// aboutValues reports whether c is a code of class RLX31, an invalid value in a tensor. Such errors also match
// device.ErrInput.
func aboutValues(c diag.Code) bool { return strings.HasPrefix(string(c), "RLX31") }

// Clean makes text from the other process printable and truncates it.
func Clean(s string) string { return CleanTo(s, maxErrorText) }

// CleanTo is like Clean, for text of at most limit bytes.
func CleanTo(s string, limit int) string {
	cut := len(s) > limit
	if cut {
		s = s[:limit]
	}
	s = diag.Printable(strings.ToValidUTF8(s, "\uFFFD")) // one for each run of invalid bytes
	if cut {
		s += "..."
	}
	return s
}

// Abridge truncates s to n bytes and marks the cut.
func Abridge(s string, n int) string {
	if len(s) > n {
		return s[:n] + "..."
	}
	return s
}
