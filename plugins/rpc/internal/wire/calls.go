package wire

import (
	"context"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// CheckCall accepts our own methods, with a deadline. It rejects go-plugin's broker, which is not used here: a backend
// could fill the host's memory with announcements of connections.
func CheckCall(ctx context.Context, method string) error {
	if !strings.HasPrefix(method, ServiceMethods) {
		return status.Errorf(codes.Unimplemented, "%s is not part of the protocol", method)
	}
	if _, ok := ctx.Deadline(); !ok {
		return status.Errorf(codes.FailedPrecondition, "%s was called without a deadline", method)
	}
	return nil
}
