//go:build linux || darwin

package rpc

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/internal/campaign"
	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// stream is a call that delivers the messages of in to one side, and discards what that side sends.
type stream[In, Out any] struct {
	grpc.ServerStream
	in   []*In
	sent int
}

func (s *stream[In, Out]) Recv() (*In, error) {
	if len(s.in) == 0 {
		return nil, io.EOF
	}
	m := s.in[0]
	s.in = s.in[1:]
	return m, nil
}

func (s *stream[In, Out]) Send(*Out) error          { s.sent++; return nil }
func (s *stream[In, Out]) SendAndClose(*Out) error  { s.sent++; return nil }
func (s *stream[In, Out]) Context() context.Context { return context.Background() }

// clientStream is like stream, for the client's side of a call.
type clientStream[Req, Res any] struct {
	grpc.ClientStream
	stream[Res, Req]
}

func (s *clientStream[Req, Res]) Recv() (*Res, error)      { return s.stream.Recv() }
func (s *clientStream[Req, Res]) Send(*Req) error          { return nil }
func (s *clientStream[Req, Res]) Context() context.Context { return context.Background() }
func (s *clientStream[Req, Res]) CloseSend() error         { return nil }

// pack and unpack convert between messages and bytes, in which each message is preceded by its length.
func pack(t testing.TB, ms ...proto.Message) (out []byte) {
	for _, m := range ms {
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		out = append(binary.AppendUvarint(out, uint64(len(b))), b...)
	}
	return out
}

func unpack[T any, P interface {
	*T
	proto.Message
}](b []byte) (out []*T) {
	for len(b) > 0 && len(out) < 64 {
		n, k := binary.Uvarint(b)
		if k <= 0 || n > uint64(len(b)-k) {
			return out
		}
		m := P(new(T))
		if proto.Unmarshal(b[k:k+int(n)], m) == nil {
			out = append(out, (*T)(m))
		}
		b = b[k+int(n):]
	}
	return out
}

// FuzzServer plays a hostile host that sends arbitrary messages in a valid order. Every call must answer or fail with a status.
func FuzzServer(t *testing.F) {
	f := campaign.New(t)
	p := testProgram(f)
	enc, err := encodeText(p)
	if err != nil {
		f.Fatal(err)
	}
	sum := sha256.Sum256(enc)
	one := map[string]int64{"N": 1}
	b, err := (&binder{p: p}).bind(one)
	if err != nil {
		f.Fatal(err)
	}
	header := &rlxv1.LoadRequest{Part: &rlxv1.LoadRequest_Header{Header: &rlxv1.LoadHeader{ProgramSize: int64(len(enc)),
		ProgramSha256: sum[:], Weights: &rlxv1.Weights{Size: 64}}}}
	prog := &rlxv1.LoadRequest{Part: &rlxv1.LoadRequest_Program{Program: enc}}
	weights := &rlxv1.LoadRequest{Part: &rlxv1.LoadRequest_Weights{Weights: testWeights()}}
	run := &rlxv1.RunRequest{Part: &rlxv1.RunRequest_Header{Header: &rlxv1.RunHeader{Executable: 1, Syms: one, Generation: 1,
		Inputs: b.inputs, Outputs: b.outputs, Dump: []int32{2}, Profile: true}}}
	input := &rlxv1.RunRequest{Part: &rlxv1.RunRequest_Input{Input: &rlxv1.Chunk{Data: testInput(1, 1)}}}
	load := []*rlxv1.LoadRequest{header, prog, weights}
	bound := &rlxv1.RunRequest{Part: &rlxv1.RunRequest_Header{Header: &rlxv1.RunHeader{Executable: 1, Syms: one, Generation: 1, Inputs: b.inputs, Outputs: b.outputs,
		State: 1, Feeds: []*rlxv1.Transfer{{State: 1, Offset: 256}}, Keeps: []*rlxv1.Transfer{{State: 1}}, Unwanted: []int32{0}}}}

	f.Add(pack(f, header, prog, weights), pack(f, run, input))
	f.Add(pack(f, header, weights, prog), pack(f, input, run))
	f.Add(pack(f, header), pack(f, run))
	f.Add(pack(f, header, prog, weights), pack(f, bound))
	f.Fuzz(func(t testing.TB, loadB, runB []byte) {
		check := func(err error) {
			if _, ok := status.FromError(err); !ok {
				t.Fatalf("%v is not a status", err)
			}
		}
		for _, ms := range [][]*rlxv1.LoadRequest{unpack[rlxv1.LoadRequest](loadB), load} {
			if len(ms) > 0 && ms[0].GetHeader() != nil {
				// A host has no reason to exhaust the memory of its own child, so limit the sizes that it announces.
				if w := ms[0].GetHeader().Weights; w != nil && w.Size > 1<<20 {
					w.Size = 1 << 20
				}
			}
			s, err := newServer(ServeConfig{Name: "ref", Backend: refBackend{}, Decode: decodeText, Log: newLogSink(nil).log}, &childFiles{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.MakeState(t.Context(), &rlxv1.MakeStateRequest{Size: 512}); err != nil {
				t.Fatal(err)
			}
			check(s.Load(&stream[rlxv1.LoadRequest, rlxv1.LoadReply]{in: ms}))
			runs := unpack[rlxv1.RunRequest](runB)
			for _, m := range runs {
				if h := m.GetHeader(); h != nil && h.Syms["N"] > 64 {
					h.Syms["N"] = 64 // the reference executor is slow
				}
			}
			check(s.Run(&stream[rlxv1.RunRequest, rlxv1.RunReply]{in: runs}))
			check(s.Stats(&rlxv1.StatsRequest{Executable: 1, Generation: 1}, &stream[rlxv1.RunRequest, rlxv1.StatsReply]{}))
			_, err = s.Unload(t.Context(), &rlxv1.UnloadRequest{Executable: 1})
			check(err)
		}
	})
}

// hostile is a backend that answers with the given messages.
type hostile struct {
	rlxv1.BackendClient
	load  *rlxv1.LoadReply
	stats []*rlxv1.StatsReply
}

func (h hostile) Load(context.Context, ...grpc.CallOption) (grpc.ClientStreamingClient[rlxv1.LoadRequest, rlxv1.LoadReply], error) {
	return &loadStream{reply: h.load}, nil
}

func (h hostile) Stats(context.Context, *rlxv1.StatsRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[rlxv1.StatsReply], error) {
	c := &clientStream[rlxv1.StatsRequest, rlxv1.StatsReply]{}
	c.in = h.stats
	return c, nil
}

type loadStream struct {
	grpc.ClientStream
	reply *rlxv1.LoadReply
}

func (*loadStream) Send(*rlxv1.LoadRequest) error             { return nil }
func (s *loadStream) CloseAndRecv() (*rlxv1.LoadReply, error) { return s.reply, nil }

// FuzzReplies plays a hostile backend that answers Load and Stats. The host must accept valid answers, and end the session with
// ErrProtocol after all others.
func FuzzReplies(t *testing.F) {
	f := campaign.New(t)
	p := testProgram(f)
	times := &rlxv1.StatsReply{}
	for _, st := range p.Steps {
		times.Steps = append(times.Steps, &rlxv1.Step{Node: int32(st.Node), StartNs: 1, TimeNs: 2})
	}
	load := &rlxv1.LoadReply{Executable: 1, Kernels: []*rlxv1.Kernel{{Op: "matmul"}}}
	f.Add(pack(f, load), pack(f, times))
	f.Add(pack(f, &rlxv1.LoadReply{}), pack(f, &rlxv1.StatsReply{}))
	f.Add(pack(f, &rlxv1.LoadReply{Executable: 1, Memory: -1}), pack(f, times))
	f.Fuzz(func(t testing.TB, loadB, statsB []byte) {
		loads := append(unpack[rlxv1.LoadReply](loadB), load)
		s := newSession(Options{Name: "ref", Encode: encodeText, Timeouts: Timeouts{}.withDefaults()})
		s.api = hostile{load: loads[0], stats: unpack[rlxv1.StatsReply](statsB)}
		check := func(err error) bool {
			if err != nil && !errors.Is(err, ErrProtocol) {
				t.Fatalf("%v is not %s", err, ErrProtocol)
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

// FuzzRunReplies plays a hostile backend that answers Run. For any replies, the host must not panic, must not store more bytes than the
// program's values have, and must accept only outputs and dumps that are complete and in order.
func FuzzRunReplies(t *testing.F) {
	f := campaign.New(t)
	p := testProgram(f)
	out := func(i int32, n int) proto.Message {
		return &rlxv1.RunReply{Part: &rlxv1.RunReply_Output{Output: &rlxv1.Chunk{Index: i, Data: make([]byte, n)}}}
	}
	done := &rlxv1.RunReply{Part: &rlxv1.RunReply_Done{Done: &rlxv1.Done{Generation: 1, FirstNan: -1}}}
	dumpOf := func(node int32) proto.Message {
		return &rlxv1.RunReply{Part: &rlxv1.RunReply_Dump{Dump: &rlxv1.Dump{Node: node, First: true, Shape: []int64{1, 4}, Data: make([]byte, 16)}}}
	}
	dump := dumpOf(2)
	f.Add(pack(f, dump, dumpOf(3), out(0, 16), done))
	f.Add(pack(f, dumpOf(3), dump, out(0, 16), done))
	f.Add(pack(f, dump, dump, dumpOf(3), out(0, 16), done))
	f.Add(pack(f, dump, out(0, 16), done))
	f.Add(pack(f, out(0, 8), out(0, 8), done))
	f.Add(pack(f, done, done))
	f.Add(pack(f, &rlxv1.RunReply{Part: &rlxv1.RunReply_Dump{Dump: &rlxv1.Dump{Node: -1}}}, done))
	f.Add(pack(f, out(-1, 1), dump, dump, &rlxv1.RunReply{Part: &rlxv1.RunReply_Progress{Progress: &rlxv1.Progress{Steps: -9}}}))
	f.Fuzz(func(t testing.TB, b []byte) {
		s := newSession(Options{Name: "ref"})
		e := &Executable{s: s, prog: p, binder: binder{p: p}}
		bound, err := e.binder.bind(map[string]int64{"N": 1})
		if err != nil {
			t.Fatal(err)
		}
		s.running.begin(p, 1)
		var seen []int
		x := &hostRun{e: e, bound: bound, header: &rlxv1.RunHeader{Generation: 1}, dumps: []int{2, 3}, finished: make(chan struct{}),
			r: device.Run{Syms: map[string]int64{"N": 1}, Opts: device.RunOptions{Observe: func(node int, _ []int, _ []byte) error {
				seen = append(seen, node)
				return nil
			}}}}
		c := &clientStream[rlxv1.RunRequest, rlxv1.RunReply]{}
		c.in = unpack[rlxv1.RunReply](b)
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
