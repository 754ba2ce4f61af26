//go:build linux || darwin

package server_test

import (
	"testing"

	"google.golang.org/grpc/status"

	"github.com/rlx-go/rlx/internal/campaign"
	"github.com/rlx-go/rlx/plugins/rpc/host"
	"github.com/rlx-go/rlx/plugins/rpc/internal/rpctest"
	"github.com/rlx-go/rlx/plugins/rpc/internal/server"
	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"

	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// FuzzStates plays a hostile host. Every call must answer or fail with a status.
func FuzzStates(t *testing.F) {
	f := campaign.New(t)
	ask := func(state uint64, at, n int64) *rlxv1.WriteStateRequest {
		return &rlxv1.WriteStateRequest{
			Part: &rlxv1.WriteStateRequest_Range{Range: &rlxv1.StateRange{State: state, Offset: at, Size: n}}}
	}
	data := &rlxv1.WriteStateRequest{Part: &rlxv1.WriteStateRequest_Data{Data: []byte("four")}}
	f.Add(rpctest.Pack(f, ask(1, 508, 4), data),
		rpctest.Pack(f, &rlxv1.ChangeStateRequest{State: 1, Change: &rlxv1.ChangeStateRequest_Copy{Copy: 2}}),
		rpctest.Pack(f, &rlxv1.StateRange{State: 1, Size: 512}))
	f.Add(rpctest.Pack(f, ask(1, 509, 4), data),
		rpctest.Pack(f, &rlxv1.ChangeStateRequest{State: 1, Change: &rlxv1.ChangeStateRequest_Drop{}}),
		rpctest.Pack(f, &rlxv1.StateRange{State: 3, Offset: -1, Size: 1 << 62}))
	f.Add(rpctest.Pack(f, data), rpctest.Pack(f, &rlxv1.ChangeStateRequest{State: 9}),
		rpctest.Pack(f, &rlxv1.StateRange{}))
	f.Fuzz(func(t testing.TB, write, change, read []byte) {
		srv, err := server.New(server.Config{Backend: rpctest.Reference{}, Log: host.NewLogSink(nil).Log},
			&wire.Files{})
		if err != nil {
			t.Fatal(err)
		}
		check := func(err error) {
			if _, ok := status.FromError(err); !ok {
				t.Fatalf("%v is not a status", err)
			}
		}
		for range 2 {
			if _, err := srv.MakeState(t.Context(), &rlxv1.MakeStateRequest{Size: 512}); err != nil {
				t.Fatal(err)
			}
		}
		check(
			srv.WriteState(
				&rpctest.Stream[rlxv1.WriteStateRequest, rlxv1.WriteStateReply]{
					In: rpctest.Unpack[rlxv1.WriteStateRequest](write)}))
		for _, m := range rpctest.Unpack[rlxv1.ChangeStateRequest](change) {
			_, err := srv.ChangeState(t.Context(), m)
			check(err)
		}
		for _, m := range rpctest.Unpack[rlxv1.StateRange](read) {
			check(srv.ReadState(m, &rpctest.Stream[rlxv1.StateRange, rlxv1.StateChunk]{}))
		}
	})
}
