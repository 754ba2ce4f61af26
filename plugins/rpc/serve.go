//go:build linux || darwin

package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rlx-go/rlx/core/diag"
	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// Serve serves the backend to the host that started this process, and returns when the host ends the session. The main function of a
// backend needs to call nothing else. If a user started the process, Serve prints what the program is for and exits with status 1, or
// with 0 for --help.
func Serve(cfg ServeConfig) {
	if os.Getenv(cookieKey) != cookieValue {
		explainUse(cfg.Name, os.Args[1:])
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	fds, err := inheritedFiles(os.Getenv(fdsEnv))
	if err == nil && os.Getenv(cookieKey) == cookieValue && fds.lifeline == nil {
		err = errors.New(fdsEnv + " names no lifeline")
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", cfg.Name, err)
		os.Exit(1)
	}
	if fds.lifeline != nil {
		go func() {
			io.Copy(io.Discard, fds.lifeline) // returns when the host exits for any reason
			endGroup()
		}()
	}
	srv, err := newServer(cfg, fds)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", cfg.Name, err)
		os.Exit(1)
	}
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig:  goplugin.HandshakeConfig{MagicCookieKey: cookieKey, MagicCookieValue: cookieValue},
		VersionedPlugins: map[int]goplugin.PluginSet{Version: {pluginName: backendPlugin{srv: srv}}},
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(opts, serverOptions(cfg.Log)...)...)
		},
		Logger: hclog.NewNullLogger(),
	})
}

// explainUse tells a user who ran the backend how to use it, and exits.
func explainUse(name string, args []string) {
	out, status := os.Stderr, 1
	if len(args) > 0 && (args[0] == "--help" || args[0] == "-h" || args[0] == "help") {
		out, status = os.Stdout, 0
	}
	fmt.Fprintf(out, "rlx-backend-%[1]s is the %[1]s backend of rlxrun, which starts it: rlxrun MODEL.rlx --backend %[1]s ...\n"+
		"rlxrun finds it beside itself, in the folders of RLX_PLUGIN_PATH, and where \"rlxrun plugins install\" puts it; \"rlxrun plugins list\" shows whether it works.\n", name)
	os.Exit(status)
}

// backendPlugin registers the service with go-plugin's server.
type backendPlugin struct {
	goplugin.NetRPCUnsupportedPlugin
	srv rlxv1.BackendServer
}

func (p backendPlugin) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	rlxv1.RegisterBackendServer(s, p.srv)
	return nil
}

func (backendPlugin) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("a backend has no client")
}

// inheritedFiles opens the descriptors listed in RLX_FDS and marks them close-on-exec.
func inheritedFiles(env string) (*childFiles, error) {
	c := &childFiles{}
	if env == "" {
		return c, nil
	}
	for entry := range strings.SplitSeq(env, ",") {
		name, num, _ := strings.Cut(entry, "=")
		fd, err := strconv.Atoi(num)
		if err != nil || fd < 3 || fd > 1023 {
			return nil, fmt.Errorf("%s: %q is not NAME=DESCRIPTOR", fdsEnv, entry)
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
			return nil, fmt.Errorf("%s: descriptor %d is not open", fdsEnv, fd)
		}
		unix.CloseOnExec(fd)
		f := os.NewFile(uintptr(fd), name)
		switch name {
		case "lifeline":
			c.lifeline = f
		case "io":
			c.io = f
		case "artifact":
			c.artifact = f
		case "runs":
			c.runs = f
		case "executable":
			f.Close()
		}
	}
	return c, nil
}

// serverOptions returns the limits and interceptors for all calls.
func serverOptions(log *slog.Logger) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(MaxMessage), grpc.MaxSendMsgSize(MaxMessage),
		grpc.MaxHeaderListSize(maxHeaderList), grpc.MaxConcurrentStreams(32),
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, h grpc.UnaryHandler) (reply any, err error) {
			defer recoverCall(log, info.FullMethod, &err)
			if err := checkServed(ctx, info.FullMethod); err != nil {
				return nil, err
			}
			return h(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, st grpc.ServerStream, info *grpc.StreamServerInfo, h grpc.StreamHandler) (err error) {
			defer recoverCall(log, info.FullMethod, &err)
			if err := checkServed(st.Context(), info.FullMethod); err != nil {
				return err
			}
			return h(srv, st)
		}),
	}
}

// checkServed rejects calls without a deadline, and methods that go-plugin registers but the protocol does not use (reflection and the
// broker).
func checkServed(ctx context.Context, method string) error {
	switch {
	case method == stdioMethod, method == shutdownMethod, method == healthMethod:
		return nil
	}
	err := checkCall(ctx, method)
	if status.Code(err) == codes.FailedPrecondition {
		return protocolError("%s", status.Convert(err).Message()) // every error of a call of ours has a detail
	}
	return err
}

// recoverCall converts a panic in a call to an error of the call. A panic in another goroutine ends the process, and the host reports the
// first line of its output.
func recoverCall(log *slog.Logger, method string, err *error) {
	if p := recover(); p != nil {
		log.Error("panic", "method", method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		*err = toWire(panicError(p), nil)
	}
}

func panicError(p any) error {
	return diag.New(ErrPanicked, "", "panic: %s", abridge(fmt.Sprint(p), 500))
}

// protocolError returns the error for a request that violates the protocol.
func protocolError(format string, args ...any) error {
	return toWire(diag.New(ErrRefused, "", format, args...), nil)
}

// statusOf encodes err as a gRPC status. It returns errors that already have a status unchanged.
func statusOf(err error, at *StepError) error {
	if s, ok := status.FromError(err); ok && s.Code() != codes.Unknown {
		return err
	}
	return toWire(err, at)
}
