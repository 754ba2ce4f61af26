//go:build linux || darwin

package server_test

import (
	"errors"
	"net"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/rlx-go/rlx/internal/campaign"
	"github.com/rlx-go/rlx/plugins/rpc/host"
	"github.com/rlx-go/rlx/plugins/rpc/internal/rpctest"
	"github.com/rlx-go/rlx/plugins/rpc/internal/server"
	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"

	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// FuzzDirect sends arbitrary bytes to a backend over the run channel, which must answer or close the channel.
func FuzzDirect(t *testing.F) {
	f := campaign.New(t)
	frame := func(m proto.Message) []byte {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		return append([]byte{byte(len(b)), byte(len(b) >> 8), 0, 0}, b...)
	}
	st, _ := proto.Marshal(status.New(codes.Internal, "no").Proto())
	f.Add(frame(&rlxv1.RunResult{Done: &rlxv1.Done{Generation: 1}}))
	f.Add(frame(&rlxv1.RunResult{Status: st}))
	f.Add(frame(&rlxv1.RunResult{Done: &rlxv1.Done{}, Status: st}))
	f.Add(frame(&rlxv1.RunHeader{Executable: 1, Generation: 1}))
	f.Add([]byte{0xFF, 0xFF, 0xFF, 0xFF})
	f.Add([]byte{9, 0})
	f.Fuzz(func(t testing.TB, b []byte) {
		srv, err := server.New(
			server.Config{Backend: rpctest.Reference{}, Decode: rpctest.Decode, Log: host.NewLogSink(nil).Log},
			&wire.Files{})
		if err != nil {
			t.Fatal(err)
		}
		host, backend := rpctest.ChannelPair(t)
		go func() {
			host.Conn.Write(b)
			host.Conn.(*net.UnixConn).CloseWrite()
		}()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			srv.ServeRuns(backend)
			backend.Close()
		}()
		for err = nil; err == nil; {
			err = host.Read(&rlxv1.RunResult{})
		}
		if errors.Is(err, wire.ErrTooLong) {
			t.Fatal(err)
		}
		host.Close()
		<-ended
	})
}
