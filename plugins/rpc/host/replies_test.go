//go:build linux || darwin

package host

import (
	"context"
	"errors"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/internal/campaign"
	"github.com/rlx-go/rlx/plugins/rpc/internal/rpctest"
	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"

	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// hostile is a backend that answers with the given messages.
type hostile struct {
	rlxv1.BackendClient
	load  *rlxv1.LoadReply
	stats []*rlxv1.StatsReply
}

func (h hostile) Load(context.Context, ...grpc.CallOption) (
	grpc.ClientStreamingClient[rlxv1.LoadRequest, rlxv1.LoadReply], error) {
	return &loadStream{reply: h.load}, nil
}

func (h hostile) Stats(context.Context, *rlxv1.StatsRequest, ...grpc.CallOption) (
	grpc.ServerStreamingClient[rlxv1.StatsReply], error) {
	c := &rpctest.ClientStream[rlxv1.StatsRequest, rlxv1.StatsReply]{}
	c.In = h.stats
	return c, nil
}

type loadStream struct {
	grpc.ClientStream
	reply *rlxv1.LoadReply
}

func (*loadStream) Send(*rlxv1.LoadRequest) error             { return nil }
func (s *loadStream) CloseAndRecv() (*rlxv1.LoadReply, error) { return s.reply, nil }

// FuzzReplies plays a hostile backend that answers Load and Stats. The host must accept valid answers, and end the
// session with code.Protocol after all others.
func FuzzReplies(t *testing.F) {
	f := campaign.New(t)
	p := rpctest.Program(f)
	times := &rlxv1.StatsReply{}
	for _, st := range p.Steps {
		times.Steps = append(times.Steps, &rlxv1.Step{Node: int32(st.Node), StartNs: 1, TimeNs: 2})
	}
	load := &rlxv1.LoadReply{Executable: 1, Kernels: []*rlxv1.Kernel{{Op: "matmul"}}}
	f.Add(rpctest.Pack(f, load), rpctest.Pack(f, times))
	f.Add(rpctest.Pack(f, &rlxv1.LoadReply{}), rpctest.Pack(f, &rlxv1.StatsReply{}))
	f.Add(rpctest.Pack(f, &rlxv1.LoadReply{Executable: 1, Memory: -1}), rpctest.Pack(f, times))
	f.Add(rpctest.Pack(f, load), rpctest.Pack(f, &rlxv1.StatsReply{Steps: []*rlxv1.Step{{Flops: proto.Int64(-1)}}}))
	f.Fuzz(func(t testing.TB, loadB, statsB []byte) {
		loads := append(rpctest.Unpack[rlxv1.LoadReply](loadB), load)
		s := newSession(Options{Name: "ref", Encode: rpctest.Encode, Timeouts: Timeouts{}.WithDefaults()})
		s.api = hostile{load: loads[0], stats: rpctest.Unpack[rlxv1.StatsReply](statsB)}
		check := func(err error) bool {
			if err != nil && !errors.Is(err, code.Protocol) {
				t.Fatalf("%v is not %s", err, code.Protocol)
			}
			return err == nil
		}
		e, err := s.LoadMapped(t.Context(), LoadOptions{Program: p})
		if !check(err) {
			return
		}
		x := &hostRun{e: e, header: &rlxv1.RunHeader{Generation: 1}, steps: len(p.Steps)}
		if check(x.fetchSteps(t.Context())) && len(x.stats.Steps) != len(p.Steps) {
			t.Fatalf("%d times of %d steps", len(x.stats.Steps), len(p.Steps))
		}
	})
}

// FuzzRunReplies plays a hostile backend that answers Run. For any replies, the host must not panic, must not store
// more bytes than the program's values have, and must accept only outputs and dumps that are complete and in order.
func FuzzRunReplies(t *testing.F) {
	f := campaign.New(t)
	p := rpctest.Program(f)
	out := func(i int32, n int) proto.Message {
		return &rlxv1.RunReply{Part: &rlxv1.RunReply_Output{Output: &rlxv1.Chunk{Index: i, Data: make([]byte, n)}}}
	}
	done := &rlxv1.RunReply{Part: &rlxv1.RunReply_Done{Done: &rlxv1.Done{Generation: 1, FirstNan: -1}}}
	dumpOf := func(node int32) proto.Message {
		return &rlxv1.RunReply{
			Part: &rlxv1.RunReply_Dump{
				Dump: &rlxv1.Dump{Node: node, First: true, Shape: []int64{1, 4}, Data: make([]byte, 16)}}}
	}
	dump := dumpOf(2)
	f.Add(rpctest.Pack(f, dump, dumpOf(3), out(0, 16), done))
	f.Add(rpctest.Pack(f, dumpOf(3), dump, out(0, 16), done))
	f.Add(rpctest.Pack(f, dump, dump, dumpOf(3), out(0, 16), done))
	f.Add(rpctest.Pack(f, dump, out(0, 16), done))
	f.Add(rpctest.Pack(f, out(0, 8), out(0, 8), done))
	f.Add(rpctest.Pack(f, done, done))
	f.Add(rpctest.Pack(f, &rlxv1.RunReply{Part: &rlxv1.RunReply_Dump{Dump: &rlxv1.Dump{Node: -1}}}, done))
	f.Add(
		rpctest.Pack(f, out(-1, 1), dump, dump,
			&rlxv1.RunReply{Part: &rlxv1.RunReply_Progress{Progress: &rlxv1.Progress{Steps: -9}}}))
	f.Fuzz(func(t testing.TB, b []byte) {
		s := newSession(Options{Name: "ref"})
		e := &Executable{session: s, prog: p, binder: wire.Binder{Program: p}}
		bound, err := e.binder.Bind(map[string]int64{"N": 1})
		if err != nil {
			t.Fatal(err)
		}
		s.running.begin(p, 1)
		var seen []int
		x := &hostRun{e: e, bound: bound, header: &rlxv1.RunHeader{Generation: 1}, dumps: []int{2, 3},
			finished: make(chan struct{}),
			r: device.Run{Syms: map[string]int64{"N": 1},
				Opts: device.RunOptions{Observe: func(node int, _ []int, _ []byte) error {
					seen = append(seen, node)
					return nil
				}}}}
		c := &rpctest.ClientStream[rlxv1.RunRequest, rlxv1.RunReply]{}
		c.In = rpctest.Unpack[rlxv1.RunReply](b)
		err = x.receive(c)
		if n, total := s.Progress(); n < 0 || n > total {
			t.Fatalf("progress %d of %d", n, total)
		}
		if len(x.staged[0]) > 16 || err == nil && len(x.staged[0]) != 16 {
			t.Fatalf("%d bytes of an output of 16, %v", len(x.staged[0]), err)
		}
		if err == nil && !slices.Equal(seen, []int{2, 3}) {
			t.Fatalf("the values of nodes %v were accepted; want 2, 3", seen)
		}
	})
}
