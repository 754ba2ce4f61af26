//go:build linux || darwin || windows

package server

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"
)

// Options returns the limits and interceptors for all calls.
func Options(log *slog.Logger) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(wire.MaxMessage), grpc.MaxSendMsgSize(wire.MaxMessage),
		grpc.MaxHeaderListSize(wire.MaxHeaderList), grpc.MaxConcurrentStreams(32),
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, h grpc.UnaryHandler) (
			reply any, err error) {
			defer recoverCall(log, info.FullMethod, &err)
			if err := checkServed(ctx, info.FullMethod); err != nil {
				return nil, err
			}
			return h(ctx, req)
		}),
		grpc.ChainStreamInterceptor(
			func(srv any, st grpc.ServerStream, info *grpc.StreamServerInfo, h grpc.StreamHandler) (err error) {
				defer recoverCall(log, info.FullMethod, &err)
				if err := checkServed(st.Context(), info.FullMethod); err != nil {
					return err
				}
				return h(srv, st)
			}),
	}
}

// checkServed rejects calls without a deadline, and methods that go-plugin registers but the protocol does not use
// (reflection and the broker).
func checkServed(ctx context.Context, method string) error {
	switch {
	case method == wire.StdioMethod, method == wire.ShutdownMethod, method == wire.HealthMethod:
		return nil
	}
	err := wire.CheckCall(ctx, method)
	if status.Code(err) == codes.FailedPrecondition {
		return protocolError("%s was called without a deadline", method)
	}
	return err
}

// recoverCall converts a panic in a call to an error of the call. A panic in another goroutine ends the process, and
// the host reports the first line of its output.
func recoverCall(log *slog.Logger, method string, err *error) {
	if p := recover(); p != nil {
		log.Error("panic", "method", method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		*err = wire.ToStatus(panicError(p), nil)
	}
}

func panicError(p any) error {
	return diag.New(code.Panicked, "", "panic: %s", wire.Abridge(fmt.Sprint(p), 500))
}

// protocolError returns the error for a request that violates the protocol.
func protocolError(format string, args ...any) error {
	return wire.ToStatus(diag.New(code.Refused, "", format, args...), nil)
}

// statusOf encodes err as a gRPC status. It returns errors that already have a status unchanged.
func statusOf(err error, at *wire.StepError) error {
	if s, ok := status.FromError(err); ok && s.Code() != codes.Unknown {
		return err
	}
	return wire.ToStatus(err, at)
}
