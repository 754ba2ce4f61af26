//go:build linux || darwin

package rpc

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/internal/campaign"
	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// TestKeepCancelled checks that after a cancelled run, states that it wrote to are invalid and states that it only read are valid.
func TestKeepCancelled(t *testing.T) {
	t.Parallel()
	opts, _ := testOptions(t, "wait@run:2")
	s := start(t, opts)
	e, err := s.LoadMapped(t.Context(), testLoad(testProgram(t)))
	if err != nil {
		t.Fatal(err)
	}
	var states [2]*State
	for i := range states {
		if states[i], err = s.MakeState(t.Context(), "", 256); err != nil {
			t.Fatal(err)
		}
	}
	run := device.Run{Syms: map[string]int64{"N": 1}, Feeds: []device.Transfer{{State: states[0]}}, Keeps: []device.Transfer{{State: states[1]}}}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for n := 0; n == 0; n, _ = s.Progress() {
		}
		cancel()
	}()
	if _, _, err = e.RunTensors(ctx, run, [][]byte{nil}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := states[0].CheckValid(t.Context()); err != nil {
		t.Error(err)
	}
	wantCode(t, states[1].CheckValid(t.Context()), device.ErrState, "reset it")
	run.Feeds[0].State = states[1]
	_, _, err = e.RunTensors(t.Context(), run, [][]byte{nil})
	wantCode(t, err, device.ErrState)
	if err := states[1].Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantCode(t, states[0].Read(t.Context(), 250, make([]byte, 7)), device.ErrInput)
	if err := states[0].Close(); err != nil {
		t.Error(err)
	}
	wantCode(t, states[0].Clear(t.Context()), device.ErrInput, "closed")
	other := start(t, opts)
	far, err := other.MakeState(t.Context(), "", 256)
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, states[1].Copy(t.Context(), far), device.ErrInput)
	run.Feeds[0].State = far
	_, _, err = e.RunTensors(t.Context(), run, [][]byte{nil})
	wantCode(t, err, device.ErrInput, "another session")
}

// hostileStates is a backend that answers state calls with the given messages.
type hostileStates struct {
	rlxv1.BackendClient
	made   *rlxv1.MakeStateReply
	chunks []*rlxv1.StateChunk
}

func (h hostileStates) MakeState(context.Context, *rlxv1.MakeStateRequest, ...grpc.CallOption) (*rlxv1.MakeStateReply, error) {
	return h.made, nil
}

func (h hostileStates) ReadState(context.Context, *rlxv1.StateRange, ...grpc.CallOption) (grpc.ServerStreamingClient[rlxv1.StateChunk], error) {
	c := &clientStream[rlxv1.StateRange, rlxv1.StateChunk]{}
	c.in = h.chunks
	return c, nil
}

// FuzzStates plays a hostile host and a hostile backend. Every call must answer or fail with a status. The host must accept exactly the
// bytes that it requested; anything else must end the session with ErrProtocol.
func FuzzStates(t *testing.F) {
	f := campaign.New(t)
	ask := func(state uint64, at, n int64) *rlxv1.WriteStateRequest {
		return &rlxv1.WriteStateRequest{Part: &rlxv1.WriteStateRequest_Range{Range: &rlxv1.StateRange{State: state, Offset: at, Size: n}}}
	}
	data := &rlxv1.WriteStateRequest{Part: &rlxv1.WriteStateRequest_Data{Data: []byte("four")}}
	chunk := &rlxv1.StateChunk{Data: []byte("four")}
	f.Add(pack(f, ask(1, 508, 4), data), pack(f, &rlxv1.ChangeStateRequest{State: 1, Change: &rlxv1.ChangeStateRequest_Copy{Copy: 2}}),
		pack(f, &rlxv1.StateRange{State: 1, Size: 512}), pack(f, &rlxv1.MakeStateReply{State: 1}), pack(f, chunk, chunk))
	f.Add(pack(f, ask(1, 509, 4), data), pack(f, &rlxv1.ChangeStateRequest{State: 1, Change: &rlxv1.ChangeStateRequest_Drop{}}),
		pack(f, &rlxv1.StateRange{State: 3, Offset: -1, Size: 1 << 62}), pack(f, &rlxv1.MakeStateReply{}), pack(f, chunk))
	f.Add(pack(f, data), pack(f, &rlxv1.ChangeStateRequest{State: 9}), pack(f, &rlxv1.StateRange{}), []byte{}, pack(f, chunk, chunk, chunk))
	f.Fuzz(func(t testing.TB, write, change, read, made, chunks []byte) {
		srv, err := newServer(ServeConfig{Name: "ref", Backend: refBackend{}, Log: newLogSink(nil).log}, &childFiles{})
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
		check(srv.WriteState(&stream[rlxv1.WriteStateRequest, rlxv1.WriteStateReply]{in: unpack[rlxv1.WriteStateRequest](write)}))
		for _, m := range unpack[rlxv1.ChangeStateRequest](change) {
			_, err := srv.ChangeState(t.Context(), m)
			check(err)
		}
		for _, m := range unpack[rlxv1.StateRange](read) {
			check(srv.ReadState(m, &stream[rlxv1.StateRange, rlxv1.StateChunk]{}))
		}

		s := newSession(Options{Name: "ref", Timeouts: Timeouts{}.withDefaults()})
		replies := append(unpack[rlxv1.MakeStateReply](made), &rlxv1.MakeStateReply{State: 7})
		parts := unpack[rlxv1.StateChunk](chunks)
		s.api = hostileStates{made: replies[0], chunks: parts}
		st, err := s.MakeState(t.Context(), "", 512)
		if replies[0].State == 0 {
			if !errors.Is(err, ErrProtocol) {
				t.Fatalf("state 0: %v", err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		var sent []byte
		whole := true
		for _, c := range parts {
			sent = append(sent, c.Data...)
			whole = whole && len(c.Data) > 0
		}
		got := make([]byte, 8)
		err = st.Read(t.Context(), 0, got)
		if ok := whole && len(sent) == len(got); ok != (err == nil) || err != nil && !errors.Is(err, ErrProtocol) || ok && !bytes.Equal(got, sent) {
			t.Fatalf("%d bytes in %d chunks were sent; want 8: %v", len(sent), len(parts), err)
		}
	})
}
