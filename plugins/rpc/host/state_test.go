//go:build linux || darwin

package host

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/internal/campaign"
	"github.com/rlx-go/rlx/plugins/rpc/internal/rpctest"

	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// TestKeepCancelled checks that after a cancelled run, states that it wrote to are invalid and states that it only read
// are valid.
func TestKeepCancelled(t *testing.T) {
	t.Parallel()
	opts, _ := testOptions(t, "wait@run:2")
	s := start(t, opts)
	e, err := s.LoadMapped(t.Context(), testLoad(rpctest.Program(t)))
	if err != nil {
		t.Fatal(err)
	}
	var states [2]*State
	for i := range states {
		if states[i], err = s.MakeState(t.Context(), "", 256); err != nil {
			t.Fatal(err)
		}
	}
	run := device.Run{Syms: map[string]int64{"N": 1}, Feeds: []device.Transfer{{State: states[0]}},
		Keeps: []device.Transfer{{State: states[1]}}}
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

func (h hostileStates) MakeState(context.Context, *rlxv1.MakeStateRequest, ...grpc.CallOption) (
	*rlxv1.MakeStateReply, error) {
	return h.made, nil
}

func (h hostileStates) ReadState(context.Context, *rlxv1.StateRange, ...grpc.CallOption) (
	grpc.ServerStreamingClient[rlxv1.StateChunk], error) {
	c := &rpctest.ClientStream[rlxv1.StateRange, rlxv1.StateChunk]{}
	c.In = h.chunks
	return c, nil
}

// FuzzStateReplies plays a hostile backend. The host must accept exactly the bytes that it requested; anything else
// must end the session with code.Protocol.
func FuzzStateReplies(t *testing.F) {
	f := campaign.New(t)
	chunk := &rlxv1.StateChunk{Data: []byte("four")}
	f.Add(rpctest.Pack(f, &rlxv1.MakeStateReply{State: 1}), rpctest.Pack(f, chunk, chunk))
	f.Add(rpctest.Pack(f, &rlxv1.MakeStateReply{}), rpctest.Pack(f, chunk))
	f.Add([]byte{}, rpctest.Pack(f, chunk, chunk, chunk))
	f.Fuzz(func(t testing.TB, made, chunks []byte) {
		s := newSession(Options{Name: "ref", Timeouts: Timeouts{}.WithDefaults()})
		replies := append(rpctest.Unpack[rlxv1.MakeStateReply](made), &rlxv1.MakeStateReply{State: 7})
		parts := rpctest.Unpack[rlxv1.StateChunk](chunks)
		s.api = hostileStates{made: replies[0], chunks: parts}
		st, err := s.MakeState(t.Context(), "", 512)
		if replies[0].State == 0 {
			if !errors.Is(err, code.Protocol) {
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
		if ok := whole && len(sent) == len(got); ok != (err == nil) || err != nil && !errors.Is(err, code.Protocol) ||
			ok && !bytes.Equal(got, sent) {
			t.Fatalf("%d bytes in %d chunks were sent; want 8: %v", len(sent), len(parts), err)
		}
	})
}
