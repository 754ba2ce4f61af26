//go:build linux || darwin || windows

package host

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// hostPlugin returns go-plugin's connection unchanged.
type hostPlugin struct {
	goplugin.NetRPCUnsupportedPlugin
}

func (hostPlugin) GRPCServer(*goplugin.GRPCBroker, *grpc.Server) error {
	return errors.New("a host has no server")
}

func (hostPlugin) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, c *grpc.ClientConn) (any, error) {
	return c, nil
}

// dialOptions replace go-plugin's defaults, which are: no TLS, messages up to 2 GiB, any method, no deadlines,
// reconnection.
func dialOptions(r *backendRunner, id hostIdentity, stop time.Duration, log *protocolLog) []grpc.DialOption {
	var dialled atomic.Bool
	secure := credentials.NewTLS(id.config(func() []byte { return r.accepted.Load().cert }))
	return []grpc.DialOption{
		grpc.WithTransportCredentials(&watchedTLS{secure, r.tlsFailed, func() { r.reached.Store(reachedTLS) }}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(wire.MaxMessage), grpc.MaxCallSendMsgSize(wire.MaxMessage)),
		grpc.WithMaxHeaderListSize(wire.MaxHeaderList),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithIdleTimeout(0), // an idle channel would close its connection and dial again later
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			// A second dial to the same path could only reach another process.
			h := r.accepted.Load()
			if h == nil || dialled.Swap(true) {
				return nil, errors.New("the connection to the backend has ended")
			}
			var d net.Dialer
			conn, err := d.DialContext(ctx, network, h.socket)
			if err != nil {
				return nil, err
			}
			if err := checkPeer(conn); err != nil {
				conn.Close()
				return nil, err
			}
			r.reached.Store(reachedSocket)
			return conn, nil
		}),
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
			invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if method == wire.ShutdownMethod {
				// go-plugin's Kill sends Shutdown without a deadline, which would hang on a stopped process.
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, stop)
				defer cancel()
			} else if err := checkOwnCall(ctx, method); err != nil {
				return err
			}
			return log.unary(ctx, method, req, reply, cc, invoke, opts...)
		}),
		grpc.WithChainStreamInterceptor(
			func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
				streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
				if method != wire.StdioMethod { // the stdio stream lasts as long as the process
					if err := checkOwnCall(ctx, method); err != nil {
						return nil, err
					}
				}
				return log.stream(ctx, desc, cc, method, streamer, opts...)
			}),
	}
}

// checkOwnCall is checkCall for calls of this host, which makes one without a deadline only to see that the backend
// refuses it.
func checkOwnCall(ctx context.Context, method string) error {
	if ctx.Value(withoutDeadline{}) != nil {
		return nil
	}
	return wire.CheckCall(ctx, method)
}
