//go:build linux || darwin || windows

package server

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"

	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// maxStates is the largest number of states at a time.
const maxStates = 1024

// MakeState makes a state. Like the other calls for states, it fails while a run is in progress.
func (s *Server) MakeState(ctx context.Context, r *rlxv1.MakeStateRequest) (*rlxv1.MakeStateReply, error) {
	if !s.running.TryLock() {
		return nil, protocolError("state: a run is in progress")
	}
	defer s.running.Unlock()
	if r.Size < 0 {
		return nil, protocolError("state of %d bytes", r.Size)
	}
	if len(s.states) >= maxStates {
		return nil, wire.ToStatus(diag.New(device.ErrMemory, "", "there are %d states; drop one", maxStates), nil)
	}
	st, err := s.cfg.Backend.NewState(ctx, r.Device, r.Size)
	if err != nil {
		return nil, statusOf(err, nil)
	}
	s.lastState++
	s.states[s.lastState] = st
	return &rlxv1.MakeStateReply{State: s.lastState}, nil
}

func (s *Server) state(id uint64) (device.State, error) {
	if st := s.states[id]; st != nil {
		return st, nil
	}
	return nil, protocolError("there is no state %d", id)
}

// stateRange returns the state of a range, and an error if the range is not inside it.
func (s *Server) stateRange(r *rlxv1.StateRange) (device.State, error) {
	st, err := s.state(r.GetState())
	if err == nil && !wire.InRange(r.GetOffset(), r.GetSize(), st.Size()) {
		err = protocolError("%d bytes at %d of a state of %d", r.GetSize(), r.GetOffset(), st.Size())
	}
	return st, err
}

func (s *Server) ChangeState(ctx context.Context, r *rlxv1.ChangeStateRequest) (*rlxv1.ChangeStateReply, error) {
	if !s.running.TryLock() {
		return nil, protocolError("state: a run is in progress")
	}
	defer s.running.Unlock()
	st, err := s.state(r.State)
	if err != nil {
		return nil, err
	}
	switch c := r.Change.(type) {
	case *rlxv1.ChangeStateRequest_Clear:
		err = st.Clear(ctx)
	case *rlxv1.ChangeStateRequest_Copy:
		var from device.State
		if from, err = s.state(c.Copy); err == nil {
			err = st.Copy(ctx, from)
		}
	case *rlxv1.ChangeStateRequest_Drop:
		delete(s.states, r.State)
		err = st.Close()
	default:
		err = protocolError("state %d: the request has no change", r.State)
	}
	if err != nil {
		return nil, statusOf(err, nil)
	}
	return &rlxv1.ChangeStateReply{}, nil
}

func (s *Server) ReadState(r *rlxv1.StateRange, out grpc.ServerStreamingServer[rlxv1.StateChunk]) error {
	if !s.running.TryLock() {
		return protocolError("state: a run is in progress")
	}
	defer s.running.Unlock()
	st, err := s.stateRange(r)
	if err != nil {
		return err
	}
	buf := make([]byte, min(r.Size, wire.MaxChunk))
	for at := int64(0); at < r.Size; {
		b := buf[:min(int64(len(buf)), r.Size-at)]
		if err := st.Read(out.Context(), r.Offset+at, b); err != nil {
			return statusOf(err, nil)
		}
		if err := out.Send(&rlxv1.StateChunk{Data: b}); err != nil {
			return err
		}
		at += int64(len(b))
	}
	return nil
}

func (s *Server) WriteState(in grpc.ClientStreamingServer[rlxv1.WriteStateRequest, rlxv1.WriteStateReply]) error {
	first, err := firstOf(in)
	if err != nil {
		return err
	}
	if !s.running.TryLock() {
		return protocolError("state: a run is in progress")
	}
	defer s.running.Unlock()
	r := first.GetRange()
	st, err := s.stateRange(r)
	if err != nil {
		return err
	}
	for at := int64(0); at < r.GetSize(); {
		m, err := in.Recv()
		if errors.Is(err, io.EOF) {
			return protocolError("state: ended after %d of %d bytes", at, r.GetSize())
		}
		if err != nil {
			return err
		}
		b := m.GetData()
		if len(b) == 0 || int64(len(b)) > min(r.GetSize()-at, wire.MaxChunk) {
			return protocolError("state: a chunk of %d bytes; want 1 to %d", len(b), min(r.GetSize()-at, wire.MaxChunk))
		}
		if err := st.Write(in.Context(), r.GetOffset()+at, b); err != nil {
			return statusOf(err, nil)
		}
		at += int64(len(b))
	}
	return in.SendAndClose(&rlxv1.WriteStateReply{})
}

// bindStates sets the states and outputs of a run from its header. It leaves the check of the ranges to the backend.
func (s *Server) bindStates(p *program.Program, h *rlxv1.RunHeader, r *device.Run) (err error) {
	if h.State != 0 {
		if r.State, err = s.state(h.State); err != nil {
			return err
		}
	}
	transfers := func(list []*rlxv1.Transfer) (out []device.Transfer) {
		for _, t := range list {
			st, e := s.state(t.GetState())
			if e != nil && err == nil {
				err = e
			}
			out = append(out, device.Transfer{Tensor: int(t.GetTensor()), State: st, Offset: t.GetOffset()})
		}
		return out
	}
	if len(h.Feeds) > wire.MaxListed || len(h.Keeps) > wire.MaxListed {
		return protocolError("run: %d feeds, %d keeps; at most %d", len(h.Feeds), len(h.Keeps), wire.MaxListed)
	}
	r.Feeds, r.Keeps = transfers(h.Feeds), transfers(h.Keeps)
	if err != nil || len(h.Unwanted) == 0 {
		return err
	}
	r.Outputs = make([]bool, len(p.Graph.Outputs))
	for i := range r.Outputs {
		r.Outputs[i] = true
	}
	for k, i := range h.Unwanted {
		if i < 0 || int(i) >= len(r.Outputs) || k > 0 && i <= h.Unwanted[k-1] {
			return protocolError("run: unwanted outputs %v; want numbers below %d in ascending order", h.Unwanted,
				len(r.Outputs))
		}
		r.Outputs[i] = false
	}
	return nil
}
