package gpu

import (
	"context"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

// state implements device.State: memory of a device that outlives runs, such as a key-value cache.
type state struct {
	gpu   *gpu
	size  int64
	space *space // nil after Close
}

// NewState allocates a state of zeros on a device.
func (b *Backend) NewState(_ context.Context, id string, size int64) (device.State, error) {
	return guard(b.api, func() (device.State, error) {
		g, err := b.open(id)
		if err != nil {
			return nil, err
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		defer g.dev.Use()()
		s := &state{g, size, g.planSpace(size)}
		if free := g.adapter.Free(); free > 0 && s.space.bytes > free {
			return nil, diag.New(device.ErrMemory, b.api.Name(), "a state of %s does not fit: %s has %s of free memory",
				megabytes(size), g.name, megabytes(free)).WithHint(MemoryHint)
		}
		if err := s.space.make(g, "state"); err != nil {
			return nil, err
		}
		return s, nil
	})
}

func (s *state) Size() int64 { return s.size }

// do calls f while nothing else uses the device. It returns an error if the state is closed or the device is lost.
func (s *state) do(f func() error) error {
	_, err := guard(s.gpu.api, func() (struct{}, error) {
		s.gpu.mu.Lock()
		defer s.gpu.mu.Unlock()
		defer s.gpu.dev.Use()()
		if s.space == nil {
			return struct{}{}, diag.New(device.ErrInput, s.gpu.api.Name(), "the state is closed")
		}
		if err := s.gpu.lostError(); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, f()
	})
	return err
}

func (s *state) Clear(context.Context) error {
	return s.do(func() error {
		return s.gpu.commands(func(enc Encoder) error {
			for _, p := range s.space.pieces(0, s.space.bytes, 0) {
				if err := enc.Clear(p); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

func (s *state) Copy(_ context.Context, from device.State) error {
	f, ok := from.(*state)
	if !ok || f.gpu != s.gpu || f.size != s.size {
		return diag.New(device.ErrInput, s.gpu.api.Name(),
			"a state of %d bytes cannot be copied to this one of %d; want the same device and size", from.Size(),
			s.size)
	}
	return s.do(func() error {
		if f.space == nil {
			return diag.New(device.ErrInput, s.gpu.api.Name(), "the state is closed")
		}
		return s.gpu.commands(func(enc Encoder) error {
			for i, p := range s.space.pieces(0, s.space.bytes, 0) {
				if err := enc.Copy(p.Buffer, p.Offset, Piece{f.space.buffers[i], p.Offset, p.Size}); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// copyChunk is the maximum number of bytes that read copies at a time.
const copyChunk = 8 << 20

func (s *state) Read(_ context.Context, offset int64, b []byte) error {
	if err := device.CheckStateRange(s.gpu.api.Name(), offset, len(b), s.size); err != nil {
		return err
	}
	return s.do(func() error { return s.read(offset, b) })
}

// read copies bytes of the state at an offset to b. The device copies whole words.
func (s *state) read(offset int64, b []byte) error {
	for len(b) > 0 {
		begin := offset &^ 3
		n := min(int64(len(b)), copyChunk-(offset-begin))
		words := (offset + n - begin + 3) &^ 3
		st, err := s.gpu.newStaging(ToHost, words)
		if err != nil {
			return err
		}
		err = s.gpu.commands(func(enc Encoder) error {
			at := int64(0)
			for _, p := range s.space.pieces(begin, words, 0) {
				if err := enc.Copy(st.buffer, at, p); err != nil {
					return err
				}
				at += p.Size
			}
			return nil
		})
		if err == nil {
			err = s.gpu.access(st, words, time.Time{}, func(from []byte) { copy(b[:n], from[offset-begin:]) })
		}
		st.release()
		if err != nil {
			return err
		}
		b, offset = b[n:], offset+n
	}
	return nil
}

func (s *state) Write(_ context.Context, offset int64, b []byte) error {
	if err := device.CheckStateRange(s.gpu.api.Name(), offset, len(b), s.size); err != nil {
		return err
	}
	return s.do(func() error {
		begin := offset &^ 3
		// read the words that are written in part, to preserve their other bytes
		if end := offset + int64(len(b)); begin != offset || end&3 != 0 {
			whole := make([]byte, (end+3)&^3-begin)
			if err := s.read(begin, whole); err != nil {
				return err
			}
			copy(whole[offset-begin:], b)
			b = whole
		}
		if err := s.gpu.upload(s.space, begin, b); err != nil {
			return err
		}
		return s.gpu.seen(s.gpu.dev.Uploaded())
	})
}

// Close frees the memory of the state.
func (s *state) Close() error {
	_, err := guard(s.gpu.api, func() (struct{}, error) {
		s.gpu.mu.Lock()
		defer s.gpu.mu.Unlock()
		s.space.release()
		s.space = nil
		return struct{}{}, nil
	})
	return err
}

// useState checks the state, the feeds and the keeps of a run against the sizes that were bound last, and binds the
// state to the stateful dispatches.
func (x *executable) useState(r device.Run) error {
	if err := r.CheckState(x.program, x.bound.Inputs, x.bound.Outputs); err != nil {
		return err
	}
	for _, t := range append(append([]device.Transfer(nil), r.Feeds...), r.Keeps...) {
		if _, err := x.onDevice(t.State); err != nil {
			return err
		}
	}
	if r.State == nil || x.program.StateSize == 0 {
		return nil
	}
	s, err := x.onDevice(r.State)
	if err != nil || s.space == x.state {
		return err
	}
	x.dropTapes()
	x.state = s.space
	for _, d := range x.each() {
		if d.stateful {
			if err := x.bindGroup(d); err != nil {
				// some bind groups have the new state and some the old one, so the next run must bind all of them
				x.state = nil
				return err
			}
		}
	}
	return nil
}

// onDevice returns st as a *state, or an error if it is closed or belongs to another backend or device.
func (x *executable) onDevice(st device.State) (*state, error) {
	s, ok := st.(*state)
	if !ok || s.gpu != x.gpu || s.space == nil {
		return nil,
			diag.New(device.ErrInput, x.program.Method, "the state is closed, or belongs to another backend or device")
	}
	return s, nil
}

// isStateful reports whether a shader reads or writes the state space.
func (x *executable) isStateful(s kernels.Shader, d *dispatch) bool {
	for _, b := range s.Bindings {
		if n := d.operand(b); n != nil && x.program.Places[n.ID].Space == program.State {
			return true
		}
	}
	return false
}

// transfer records the copies of device.Run.Feeds from states to inputs or, if keep is set, of device.Run.Keeps from
// outputs to states.
func (c *recording) transfer(list []device.Transfer, values []program.Operand, keep bool) error {
	for _, t := range list {
		o, s := values[t.Tensor], t.State.(*state).space
		from, at := c.exec.io.pieces(o.Offset, (o.Bytes+3)&^3, 0), t.Offset
		for _, p := range from { // the buffers of a state and of the io space end at different offsets
			done := int64(0)
			for _, q := range s.pieces(at, p.Size, 0) {
				var err error
				if keep {
					err = c.enc.Copy(q.Buffer, q.Offset, Piece{p.Buffer, p.Offset + done, q.Size})
				} else {
					err = c.enc.Copy(p.Buffer, p.Offset+done, q)
				}
				if err != nil {
					return err
				}
				done += q.Size
			}
			at += p.Size
		}
	}
	return nil
}
