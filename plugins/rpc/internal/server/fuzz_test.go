//go:build linux || darwin

package server_test

import (
	"crypto/sha256"
	"testing"

	"google.golang.org/grpc/status"

	"github.com/rlx-go/rlx/internal/campaign"
	"github.com/rlx-go/rlx/plugins/rpc/host"
	"github.com/rlx-go/rlx/plugins/rpc/internal/rpctest"
	"github.com/rlx-go/rlx/plugins/rpc/internal/server"
	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"

	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// FuzzServer plays a hostile host that sends arbitrary messages in a valid order. Every call must answer or fail with a
// status.
func FuzzServer(t *testing.F) {
	f := campaign.New(t)
	p := rpctest.Program(f)
	enc, err := rpctest.Encode(p)
	if err != nil {
		f.Fatal(err)
	}
	sum := sha256.Sum256(enc)
	one := map[string]int64{"N": 1}
	b, err := (&wire.Binder{Program: p}).Bind(one)
	if err != nil {
		f.Fatal(err)
	}
	header := &rlxv1.LoadRequest{Part: &rlxv1.LoadRequest_Header{Header: &rlxv1.LoadHeader{ProgramSize: int64(len(enc)),
		ProgramSha256: sum[:], Weights: &rlxv1.Weights{Size: 64}}}}
	prog := &rlxv1.LoadRequest{Part: &rlxv1.LoadRequest_Program{Program: enc}}
	weights := &rlxv1.LoadRequest{Part: &rlxv1.LoadRequest_Weights{Weights: rpctest.Weights()}}
	run := &rlxv1.RunRequest{
		Part: &rlxv1.RunRequest_Header{Header: &rlxv1.RunHeader{Executable: 1, Syms: one, Generation: 1,
			Inputs: b.Inputs, Outputs: b.Outputs, Dump: []int32{2}, Profile: true}}}
	input := &rlxv1.RunRequest{Part: &rlxv1.RunRequest_Input{Input: &rlxv1.Chunk{Data: rpctest.Input(1, 1)}}}
	load := []*rlxv1.LoadRequest{header, prog, weights}
	bound := &rlxv1.RunRequest{
		Part: &rlxv1.RunRequest_Header{
			Header: &rlxv1.RunHeader{Executable: 1, Syms: one, Generation: 1, Inputs: b.Inputs, Outputs: b.Outputs,
				State: 1, Feeds: []*rlxv1.Transfer{{State: 1, Offset: 256}}, Keeps: []*rlxv1.Transfer{{State: 1}},
				Unwanted: []int32{0}}}}

	f.Add(rpctest.Pack(f, header, prog, weights), rpctest.Pack(f, run, input))
	f.Add(rpctest.Pack(f, header, weights, prog), rpctest.Pack(f, input, run))
	f.Add(rpctest.Pack(f, header), rpctest.Pack(f, run))
	f.Add(rpctest.Pack(f, header, prog, weights), rpctest.Pack(f, bound))
	f.Fuzz(func(t testing.TB, loadB, runB []byte) {
		check := func(err error) {
			if _, ok := status.FromError(err); !ok {
				t.Fatalf("%v is not a status", err)
			}
		}
		for _, ms := range [][]*rlxv1.LoadRequest{rpctest.Unpack[rlxv1.LoadRequest](loadB), load} {
			if len(ms) > 0 && ms[0].GetHeader() != nil {
				// A host has no reason to exhaust the memory of its own child, so limit the sizes that it announces.
				if w := ms[0].GetHeader().Weights; w != nil && w.Size > 1<<20 {
					w.Size = 1 << 20
				}
			}
			s, err := server.New(
				server.Config{Backend: rpctest.Reference{}, Decode: rpctest.Decode, Log: host.NewLogSink(nil).Log},
				&wire.Files{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.MakeState(t.Context(), &rlxv1.MakeStateRequest{Size: 512}); err != nil {
				t.Fatal(err)
			}
			check(s.Load(&rpctest.Stream[rlxv1.LoadRequest, rlxv1.LoadReply]{In: ms}))
			runs := rpctest.Unpack[rlxv1.RunRequest](runB)
			for _, m := range runs {
				if h := m.GetHeader(); h != nil && h.Syms["N"] > 64 {
					h.Syms["N"] = 64 // the reference executor is slow
				}
			}
			check(s.Run(&rpctest.Stream[rlxv1.RunRequest, rlxv1.RunReply]{In: runs}))
			check(
				s.Stats(&rlxv1.StatsRequest{Executable: 1, Generation: 1},
					&rpctest.Stream[rlxv1.RunRequest, rlxv1.StatsReply]{}))
			_, err = s.Unload(t.Context(), &rlxv1.UnloadRequest{Executable: 1})
			check(err)
		}
	})
}
