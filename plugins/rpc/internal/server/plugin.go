//go:build linux || darwin || windows

package server

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/hashicorp/go-hclog"

	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// Serve serves srv to the host that started this process, and returns when the host ends the session.
func Serve(srv rlxv1.BackendServer, opts ...grpc.ServerOption) {
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig:  goplugin.HandshakeConfig{MagicCookieKey: wire.CookieKey, MagicCookieValue: wire.CookieValue},
		VersionedPlugins: map[int]goplugin.PluginSet{wire.Version: {wire.PluginName: backendPlugin{srv: srv}}},
		GRPCServer: func(own []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(own, opts...)...)
		},
		Logger: hclog.NewNullLogger(),
	})
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

// EndWith ends this process and all that it started when the host exits for any reason, which closes the lifeline.
func EndWith(lifeline *os.File) {
	go func() {
		io.Copy(io.Discard, lifeline)
		endGroup()
	}()
}
