//go:build linux || darwin || windows

package protocoltest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"

	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// defects returns more invalid requests, like wrong. The table in section 7 of spec/protocol.md lists the codes of all
// of them.
func (b *behaviour) defects() []wrongRequest {
	x, load := b.sample()
	program := func(b []byte) *rlxv1.LoadRequest {
		return &rlxv1.LoadRequest{Part: &rlxv1.LoadRequest_Program{Program: b}}
	}
	weights := &rlxv1.LoadRequest{Part: &rlxv1.LoadRequest_Weights{Weights: make([]byte, 16)}}
	list := []wrongRequest{
		{"load-threads", code.Refused, true, load(func(h *rlxv1.LoadHeader) { h.Threads = -1 })},
		{"load-device", device.ErrUnavailable, true, load(func(h *rlxv1.LoadHeader) { h.Device = "no-such-device" })},
		{"load-precision", device.ErrUnsupported, true, load(func(h *rlxv1.LoadHeader) { h.Precision = "f7" })},
		{"load-empty-chunk", code.Refused, true, load(func(h *rlxv1.LoadHeader) {}, program(nil))},
		{"load-large-chunk", code.Refused, true,
			load(func(h *rlxv1.LoadHeader) { h.ProgramSize = wire.MaxChunk + 1 },
				program(make([]byte, wire.MaxChunk+1)))},
		{"load-weights-first", code.Refused, true, load(func(h *rlxv1.LoadHeader) { h.Weights.Size = 16 }, weights)},
		{"run-symbol-unknown", device.ErrInput, true,
			running(func(h *rlxv1.RunHeader) { h.Syms["no such symbol"] = 1 })},
		{"run-dump-input", code.Refused, true,
			running(func(h *rlxv1.RunHeader) { h.Dump = []int32{int32(x.Program.Graph.Inputs()[0].ID)} })},
		{"run-keep-state", code.Refused, true,
			running(func(h *rlxv1.RunHeader) { h.Keeps = []*rlxv1.Transfer{{State: 1 << 40}} })},
		{"run-feed-twice", device.ErrInput, true, withState(func(h *rlxv1.RunHeader, state uint64) {
			h.Feeds = []*rlxv1.Transfer{{State: state}, {State: state}}
		})},
		{"run-feed-offset", device.ErrInput, true,
			withState(
				func(h *rlxv1.RunHeader, state uint64) { h.Feeds = []*rlxv1.Transfer{{State: state, Offset: 1}} })},
		{"run-keep-overlap", device.ErrInput, true, withState(func(h *rlxv1.RunHeader, state uint64) {
			h.Keeps = []*rlxv1.Transfer{{State: state}, {State: state}}
		})},
		{"stats-unprofiled", code.Refused, true,
			func(ctx context.Context, s *session, e *executable, b *wire.Binding) error {
				generation, err := runWith(ctx, s, e, b, func(*rlxv1.RunHeader) {})
				if err != nil {
					return fmt.Errorf("a valid run: %w", err)
				}
				return stats(ctx, s, e.ID(), generation)
			}},
		{"stats-generation", code.Refused, true,
			func(ctx context.Context, s *session, e *executable, _ *wire.Binding) error {
				return stats(ctx, s, e.ID(), 0)
			}},
		{"state-device", device.ErrUnavailable, true,
			func(ctx context.Context, s *session, _ *executable, _ *wire.Binding) error {
				_, err := s.api.MakeState(ctx, &rlxv1.MakeStateRequest{Device: "no-such-device", Size: 256})
				return err
			}},
		{"state-copy-size", device.ErrInput, true,
			func(ctx context.Context, s *session, _ *executable, _ *wire.Binding) error {
				return eachState(ctx, s, []int64{256, 512}, func(n []uint64) error {
					_, err := s.api.ChangeState(
						ctx, &rlxv1.ChangeStateRequest{State: n[0], Change: &rlxv1.ChangeStateRequest_Copy{Copy: n[1]}})
					return err
				})
			}},
		{"state-no-change", code.Refused, true,
			func(ctx context.Context, s *session, _ *executable, _ *wire.Binding) error {
				return eachState(ctx, s, []int64{256}, func(n []uint64) error {
					_, err := s.api.ChangeState(ctx, &rlxv1.ChangeStateRequest{State: n[0]})
					return err
				})
			}},
		{"state-write-range", code.Refused, true, writeState(&rlxv1.StateRange{Offset: 1, Size: 256})},
		{"state-write-short", code.Refused, true, writeState(&rlxv1.StateRange{Size: 256})},
	}
	if b.chunks {
		list = append(
			list, wrongRequest{"run-input-index", code.Refused, true,
				func(ctx context.Context, s *session, e *executable, b *wire.Binding) error {
					return exchange(
						ctx, s, &rlxv1.RunRequest{Part: &rlxv1.RunRequest_Header{Header: validHeader(s, e, b)}},
						&rlxv1.RunRequest{
							Part: &rlxv1.RunRequest_Input{Input: &rlxv1.Chunk{Index: 1 << 20, Data: make([]byte, 4)}}})
				}})
	}
	return list
}

// validHeader returns the header of a valid run with the largest sizes.
func validHeader(s *session, e *executable, b *wire.Binding) *rlxv1.RunHeader {
	return proto.Clone(
		&rlxv1.RunHeader{Executable: e.ID(), Generation: s.NextGeneration(), Syms: e.prog.Graph.Syms.Max(),
			Inputs: b.Inputs, Outputs: b.Outputs}).(*rlxv1.RunHeader)
}

// runWith makes a run whose header spoil changes, with inputs of zeros. It returns the run's generation.
func runWith(ctx context.Context, s *session, e *executable, b *wire.Binding, spoil func(h *rlxv1.RunHeader)) (
	int64, error) {
	h := validHeader(s, e, b)
	if h.Syms == nil {
		h.Syms = map[string]int64{} // spoil may add to it
	}
	spoil(h)
	list := []*rlxv1.RunRequest{{Part: &rlxv1.RunRequest_Header{Header: h}}}
	for i, r := range b.Inputs {
		fed := slices.ContainsFunc(h.Feeds, func(t *rlxv1.Transfer) bool { return int(t.Tensor) == i })
		for at := int64(0); s.Region == nil && !fed && at < r.Size; at += wire.MaxChunk {
			c := &rlxv1.Chunk{Index: int32(i), Data: make([]byte, min(wire.MaxChunk, r.Size-at))}
			list = append(list, &rlxv1.RunRequest{Part: &rlxv1.RunRequest_Input{Input: c}})
		}
	}
	return h.Generation, exchange(ctx, s, list...)
}

// exchange sends the messages of a run and returns the error with which it ends.
func exchange(ctx context.Context, s *session, list ...*rlxv1.RunRequest) error {
	st, err := s.api.Run(ctx)
	if err != nil {
		return err
	}
	for _, m := range list {
		if st.Send(m) != nil {
			break // Recv returns the reason
		}
	}
	st.CloseSend()
	return drain(st)
}

// drain receives until the stream ends.
func drain[M any](st grpc.ServerStreamingClient[M]) error {
	for {
		if _, err := st.Recv(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func stats(ctx context.Context, s *session, executable uint64, generation int64) error {
	st, err := s.api.Stats(ctx, &rlxv1.StatsRequest{Executable: executable, Generation: generation})
	if err != nil {
		return err
	}
	return drain(st)
}

// eachState makes states, calls f with their numbers, and frees them.
func eachState(ctx context.Context, s *session, sizes []int64, f func(states []uint64) error) error {
	var states []uint64
	for _, n := range sizes {
		m, err := s.api.MakeState(ctx, &rlxv1.MakeStateRequest{Size: n})
		if err != nil {
			return fmt.Errorf("a valid state: %w", err)
		}
		states = append(states, m.State)
	}
	err := f(states)
	for _, n := range states {
		s.api.ChangeState(ctx, &rlxv1.ChangeStateRequest{State: n, Change: &rlxv1.ChangeStateRequest_Drop{Drop: true}})
	}
	return err
}

// withState makes a run with a header that names a state of sufficient size.
func withState(spoil func(h *rlxv1.RunHeader, state uint64)) maker {
	return func(ctx context.Context, s *session, e *executable, b *wire.Binding) error {
		size := int64(256)
		for _, r := range append(b.Inputs, b.Outputs...) {
			size += r.Size
		}
		return eachState(ctx, s, []int64{size}, func(n []uint64) error {
			_, err := runWith(ctx, s, e, b, func(h *rlxv1.RunHeader) { spoil(h, n[0]) })
			return err
		})
	}
}

// writeState writes 16 bytes to a range of a state of 256 bytes.
func writeState(at *rlxv1.StateRange) maker {
	return func(ctx context.Context, s *session, _ *executable, _ *wire.Binding) error {
		return eachState(ctx, s, []int64{256}, func(n []uint64) error {
			st, err := s.api.WriteState(ctx)
			if err != nil {
				return err
			}
			r := &rlxv1.StateRange{State: n[0], Offset: at.Offset, Size: at.Size}
			st.Send(&rlxv1.WriteStateRequest{Part: &rlxv1.WriteStateRequest_Range{Range: r}})
			st.Send(&rlxv1.WriteStateRequest{Part: &rlxv1.WriteStateRequest_Data{Data: make([]byte, 16)}})
			_, err = st.CloseAndRecv()
			return err
		})
	}
}
