package host

import (
	"context"
	"errors"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
)

// lost returns an error that matches its own code, device.ErrLost and its cause.
func lost(code diag.Code, backend, format string, args ...any) *diag.Error {
	e := diag.New(code, backend, format, args...)
	e.Err = errors.Join(device.ErrLost, e.Err)
	return e
}

// interrupted is the error of a call whose context was cancelled.
func interrupted(name string, ctx context.Context) *diag.Error {
	return &diag.Error{Code: diag.Interrupted, Subject: name, Msg: "was interrupted", Err: context.Cause(ctx)}
}
