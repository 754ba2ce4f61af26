package host

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"

	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// A State is the host's handle of device memory that outlives runs. It implements device.State. Its methods wait while
// a run or another call for a state uses the session.
//
// If a run that writes to a state fails or is cancelled, the state becomes invalid: runs that use it fail with
// device.ErrState until Reset, Clear, or Copy from a valid state.
type State struct {
	s    *Session
	id   uint64
	size int64

	invalid bool // guarded by the session's runSlot
	closed  bool
}

var _ device.State = (*State)(nil)

// NewState implements device.Backend.
func (s *Session) NewState(ctx context.Context, dev string, size int64) (device.State, error) {
	st, err := s.MakeState(ctx, dev, size)
	if err != nil {
		return nil, err
	}
	return st, nil
}

// MakeState allocates size bytes of zeroed memory on a device.
func (s *Session) MakeState(ctx context.Context, dev string, size int64) (*State, error) {
	st := &State{s: s, size: size}
	err := st.do(ctx, "made a state", func(ctx context.Context) error {
		r, err := s.api.MakeState(ctx, &rlxv1.MakeStateRequest{Device: dev, Size: size})
		if err == nil && r.State == 0 {
			err = lost(code.Protocol, s.name, "gave a state the number 0, which is reserved")
		}
		st.id = r.GetState()
		return err
	})
	if err != nil {
		return nil, err
	}
	return st, nil
}

// do makes a call of the protocol while nothing else uses the session. what describes it in error messages, such as
// "cleared a state".
func (st *State) do(ctx context.Context, what string, f func(context.Context) error) error {
	return st.withLock(ctx, func() error {
		return st.s.call(ctx, st.s.opts.Timeouts.Load, func() string { return "while it " + what }, f)
	})
}

// withLock calls f while nothing else uses the session.
func (st *State) withLock(ctx context.Context, f func() error) error {
	if err := st.s.lock(ctx); err != nil {
		return err
	}
	defer st.s.unlock()
	if st.closed {
		return diag.New(device.ErrInput, st.s.name, "the state is closed")
	}
	return f()
}

// Size returns the size in bytes.
func (st *State) Size() int64 { return st.size }

// Clear sets every byte to 0 and makes the state valid.
func (st *State) Clear(ctx context.Context) error {
	return st.do(ctx, "cleared a state", func(ctx context.Context) error {
		_, err := st.s.api.ChangeState(
			ctx, &rlxv1.ChangeStateRequest{State: st.id, Change: &rlxv1.ChangeStateRequest_Clear{Clear: true}})
		st.invalid = err != nil
		return err
	})
}

// Reset sets the tensors of the state to their initial values, and makes the state valid.
func (st *State) Reset(ctx context.Context, tensors []program.StateTensor) error {
	err := st.Clear(ctx)
	if err == nil {
		err = st.Fill(ctx, tensors)
	}
	return err
}

// Fill writes the initial values of tensors to a state that is all zeros, such as a new one.
func (st *State) Fill(ctx context.Context, tensors []program.StateTensor) (err error) {
	for _, t := range tensors {
		if t.Init == 0 {
			continue
		}
		chunk := make([]byte, min(t.Bytes(), 1<<20))
		t.Fill(chunk)
		for at := int64(0); at < t.Bytes() && err == nil; at += int64(len(chunk)) {
			err = st.Write(ctx, t.Offset+at, chunk[:min(int64(len(chunk)), t.Bytes()-at)])
		}
	}
	if err != nil { // some of the values may have been written
		st.Invalidate(ctx)
	}
	return err
}

// Invalidate marks the state as invalid. Call it if one of several programs has failed and the last one may not have
// written to the state.
func (st *State) Invalidate(ctx context.Context) {
	_ = st.withLock(context.WithoutCancel(ctx), func() error {
		st.invalid = true
		return nil
	})
}

// CheckValid returns device.ErrState if the state is invalid.
func (st *State) CheckValid(ctx context.Context) error {
	return st.withLock(ctx, func() error { return st.check(st.s.name) })
}

func (st *State) check(subject string) error {
	if st.invalid {
		return diag.New(device.ErrState, subject,
			"the state is invalid, because a run that writes to it failed or was cancelled").WithHint("reset it, import its contents, or clone another")
	}
	return nil
}

// Copy copies the bytes and the validity of another state, which must have the same session, device and size.
func (st *State) Copy(ctx context.Context, from device.State) error {
	f, ok := from.(*State)
	if !ok || f.s != st.s || f.size != st.size {
		return diag.New(device.ErrInput, st.s.name,
			"a state of %d bytes cannot be copied to one of %d bytes; want equal sizes and one session", from.Size(),
			st.size)
	}
	return st.do(ctx, "copied a state", func(ctx context.Context) error {
		_, err := st.s.api.ChangeState(
			ctx, &rlxv1.ChangeStateRequest{State: st.id, Change: &rlxv1.ChangeStateRequest_Copy{Copy: f.id}})
		if err == nil {
			st.invalid = f.invalid
		}
		return err
	})
}

// Read reads len(b) bytes at an offset in bytes.
func (st *State) Read(ctx context.Context, offset int64, b []byte) error {
	if err := device.CheckStateRange(st.s.name, offset, len(b), st.size); err != nil {
		return err
	}
	return st.do(ctx, "read a state", func(ctx context.Context) error {
		in, err := st.s.api.ReadState(ctx, &rlxv1.StateRange{State: st.id, Offset: offset, Size: int64(len(b))})
		if err != nil {
			return err
		}
		for rest := b; ; {
			m, err := in.Recv()
			if errors.Is(err, io.EOF) && len(rest) == 0 {
				return nil
			}
			if errors.Is(err, io.EOF) || err == nil &&
				(len(m.Data) == 0 || len(m.Data) > min(len(rest), wire.MaxChunk)) {
				return lost(code.Protocol, st.s.name,
					"sent %d bytes of a state, and then %d; want %d, in chunks of at most %d", len(b)-len(rest),
					len(m.GetData()), len(b), wire.MaxChunk)
			}
			if err != nil {
				return err
			}
			rest = rest[copy(rest, m.Data):]
		}
	})
}

// Write writes b at an offset in bytes.
func (st *State) Write(ctx context.Context, offset int64, b []byte) error {
	if err := device.CheckStateRange(st.s.name, offset, len(b), st.size); err != nil {
		return err
	}
	return st.do(ctx, "wrote a state", func(ctx context.Context) error {
		out, err := st.s.api.WriteState(ctx)
		if err != nil {
			return err
		}
		err = out.Send(
			&rlxv1.WriteStateRequest{
				Part: &rlxv1.WriteStateRequest_Range{
					Range: &rlxv1.StateRange{State: st.id, Offset: offset, Size: int64(len(b))}}})
		for c := range slices.Chunk(b, wire.MaxChunk) {
			if err == nil {
				err = out.Send(&rlxv1.WriteStateRequest{Part: &rlxv1.WriteStateRequest_Data{Data: c}})
			}
		}
		if err != nil && !errors.Is(err, io.EOF) { // after io.EOF, CloseAndRecv returns the reason
			return err
		}
		_, err = out.CloseAndRecv()
		return err
	})
}

// Close frees the memory. The session stays usable.
func (st *State) Close() error {
	err := st.do(context.Background(), "freed a state", func(ctx context.Context) error {
		st.closed = true
		_, err := st.s.api.ChangeState(
			ctx, &rlxv1.ChangeStateRequest{State: st.id, Change: &rlxv1.ChangeStateRequest_Drop{Drop: true}})
		return err
	})
	if st.s.Err() != nil {
		return nil // freed with the process
	}
	return err
}

// invalidate marks the states that a run will write to as invalid. After a successful run, call succeeded to restore
// their validity.
func invalidate(written []*State) (succeeded func()) {
	before := make([]bool, len(written))
	for i, st := range written {
		before[i] = st.invalid
	}
	for _, st := range written {
		st.invalid = true
	}
	return func() {
		for i, st := range written {
			st.invalid = before[i]
		}
	}
}

// bindStates checks the states and outputs of a run, adds them to the header, and returns the states that the run
// writes to.
func (e *Executable) bindStates(r device.Run, b *wire.Binding, h *rlxv1.RunHeader) (written []*State, err error) {
	if err := r.CheckState(e.prog, b.In, b.Out); err != nil {
		return nil, err
	}
	for i, wanted := range r.Outputs {
		if !wanted {
			h.Unwanted = append(h.Unwanted, int32(i))
		}
	}
	of := func(s device.State) (*State, error) {
		st, ok := s.(*State)
		switch {
		case !ok || st.s != e.session:
			return nil, diag.New(device.ErrInput, e.prog.Method, "the state belongs to another session")
		case st.closed:
			return nil, diag.New(device.ErrInput, e.prog.Method, "the state is closed")
		}
		return st, nil
	}
	valid := func(s device.State) (uint64, error) {
		st, err := of(s)
		if err == nil {
			err = st.check(e.prog.Method)
		}
		if err != nil {
			return 0, err
		}
		return st.id, nil
	}
	if r.State != nil {
		if h.State, err = valid(r.State); err != nil {
			return nil, err
		}
		if e.stores {
			written = append(written, r.State.(*State))
		}
	}
	for _, t := range r.Feeds {
		id, err := valid(t.State)
		if err != nil {
			return nil, err
		}
		h.Feeds = append(h.Feeds, &rlxv1.Transfer{Tensor: int32(t.Tensor), State: id, Offset: t.Offset})
	}
	for _, t := range r.Keeps {
		st, err := of(t.State)
		if err != nil {
			return nil, err
		}
		written = append(written, st)
		h.Keeps = append(h.Keeps, &rlxv1.Transfer{Tensor: int32(t.Tensor), State: st.id, Offset: t.Offset})
	}
	return written, nil
}
