package device

import (
	"context"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/tensor"
)

// HostState is a State in the memory of the backend's process. It is for backends whose devices can use this memory.
type HostState struct {
	data []byte
	free func()
}

// NewHostState returns a state that uses data, which must be zeroed. Close calls free if it is not nil.
func NewHostState(data []byte, free func()) *HostState { return &HostState{data, free} }

// HostBytes returns the memory of a HostState. It returns nil for any other state.
func HostBytes(s State) []byte {
	if h, ok := s.(*HostState); ok {
		return h.data
	}
	return nil
}

// Size returns the size in bytes.
func (s *HostState) Size() int64 { return int64(len(s.data)) }

// Clear sets every byte to 0.
func (s *HostState) Clear(context.Context) error {
	tensor.Clear(s.data)
	return nil
}

// at returns n bytes at an offset.
func (s *HostState) at(offset int64, n int) ([]byte, error) {
	if err := CheckStateRange("state", offset, n, s.Size()); err != nil {
		return nil, err
	}
	return s.data[offset : offset+int64(n)], nil
}

// Read copies len(b) bytes from an offset to b.
func (s *HostState) Read(_ context.Context, offset int64, b []byte) error {
	from, err := s.at(offset, len(b))
	if err == nil {
		tensor.Copy(b, from)
	}
	return err
}

// Write copies b to an offset.
func (s *HostState) Write(_ context.Context, offset int64, b []byte) error {
	to, err := s.at(offset, len(b))
	if err == nil {
		tensor.Copy(to, b)
	}
	return err
}

// Copy copies all bytes of another HostState.
func (s *HostState) Copy(_ context.Context, from State) error {
	f, ok := from.(*HostState)
	if !ok || len(f.data) != len(s.data) {
		return diag.New(ErrInput, "state", "a state of %d bytes cannot be copied to one of %d", from.Size(),
			len(s.data))
	}
	tensor.Copy(s.data, f.data)
	return nil
}

// Close frees the memory.
func (s *HostState) Close() error {
	if s.free != nil {
		s.free()
	}
	s.data, s.free = nil, nil
	return nil
}

// CopyFeeds copies the fed inputs from HostStates to the memory that input returns. It must be called before the steps
// run and after CheckState.
func (r Run) CopyFeeds(input func(i int) []byte) error {
	for _, t := range r.Feeds {
		from, err := t.host()
		if err != nil {
			return err
		}
		to := input(t.Tensor)
		tensor.Copy(to, from[t.Offset:t.Offset+int64(len(to))])
	}
	return nil
}

// CopyKeeps copies the kept outputs from the memory that output returns to HostStates. It must be called after the
// steps have run.
func (r Run) CopyKeeps(output func(i int) []byte) error {
	for _, t := range r.Keeps {
		to, err := t.host()
		if err != nil {
			return err
		}
		from := output(t.Tensor)
		tensor.Copy(to[t.Offset:t.Offset+int64(len(from))], from)
	}
	return nil
}

func (t Transfer) host() ([]byte, error) {
	b := HostBytes(t.State)
	if b == nil && t.State.Size() > 0 {
		return nil, diag.New(ErrInput, "state", "belongs to another backend")
	}
	return b, nil
}
