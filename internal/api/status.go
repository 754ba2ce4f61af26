package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/rlx-go/rlx"
)

// StatusClientGone is what nginx logs for clients that have gone. No client sees it.
const StatusClientGone = 499

// StatusOf returns the status and the message of an answer to a request that failed because of the runtime or its
// client.
func StatusOf(err error) (status int, message string) {
	switch {
	case errors.Is(err, context.Canceled):
		return StatusClientGone, "the client has gone"
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout, "the request took longer than its deadline"
	case errors.Is(err, rlx.ErrInput), errors.Is(err, rlx.ErrUsage):
		return http.StatusBadRequest, err.Error()
	case errors.Is(err, rlx.ErrMemory), errors.Is(err, rlx.ErrLost):
		return http.StatusServiceUnavailable, err.Error()
	}
	return http.StatusInternalServerError, err.Error()
}
