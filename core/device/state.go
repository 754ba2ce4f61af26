package device

import (
	"context"
	"slices"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
)

// State is device memory that outlives runs. Programs keep their states in it, at the offsets of their places in the
// state space. Runs may also read inputs from it and store outputs in it. Offsets and sizes are in bytes, and offsets
// must lie within Size. No method may be called during a run that uses the state.
type State interface {
	Size() int64
	// Clear sets every byte to 0. After a failed run the host does not use the state again until it was cleared or
	// overwritten with Copy.
	Clear(ctx context.Context) error
	// Read and Write copy len(b) bytes from and to an offset.
	Read(ctx context.Context, offset int64, b []byte) error
	Write(ctx context.Context, offset int64, b []byte) error
	// Copy copies all bytes of another state, which must have the same backend, device and size.
	Copy(ctx context.Context, from State) error
	Close() error
}

// Transfer connects an input or an output of a run to bytes of a state, so that the data stays on the device. The
// offset must be a multiple of program.Align. A backend may write up to the next such multiple after the tensor.
type Transfer struct {
	Tensor int // index of the input or output
	State  State
	Offset int64
}

// CheckState returns ErrInput if the run lacks the state that its program needs or the state is too small, if feeds or
// keeps do not lie inside their states, if keeps overlap, or if Outputs has the wrong length. in and out are the inputs
// and outputs of the run, in the program's order. Backends must call it.
func (r Run) CheckState(p *program.Program, in, out []program.Operand) error {
	method, need := p.Method, p.StateSize
	if r.Outputs != nil && len(r.Outputs) != len(out) {
		return diag.New(ErrInput, method, "%d outputs are chosen from; the program has %d", len(r.Outputs), len(out))
	}
	switch {
	case need > 0 && r.State == nil:
		return diag.New(ErrInput, method, "keeps %d bytes of state from run to run, and the run names no state",
			need).WithHint("make one and name it")
	case need > 0 && r.State.Size() < need:
		return diag.New(ErrInput, method, "the state of the run has %d bytes; want %d, a state of this model",
			r.State.Size(), need)
	}
	for _, list := range []struct {
		what      string
		transfers []Transfer
		values    []program.Operand
	}{{"input", r.Feeds, in}, {"output", r.Keeps, out}} {
		for k, t := range list.transfers {
			if list.what == "input" && (Run{Feeds: r.Feeds[:k]}).Fed(t.Tensor) {
				return diag.New(ErrInput, method, "input %d is fed twice", t.Tensor)
			}
			if t.Tensor < 0 || t.Tensor >= len(list.values) || t.State == nil {
				return diag.New(
					ErrInput, method,
					"%s %d of the run is bound to a state; the program has no such %s, or the state is missing",
					list.what, t.Tensor, list.what)
			}
			n := list.values[t.Tensor].Bytes
			if size := t.State.Size(); t.Offset < 0 || t.Offset%program.Align != 0 || t.Offset > size ||
				n > size-t.Offset {
				return diag.New(
					ErrInput, method,
					"%s %d of %d bytes is bound to offset %d of a state of %d; want a multiple of %d, and all bytes inside",
					list.what, t.Tensor, n, t.Offset, size, program.Align)
			}
		}
	}
	for i, t := range r.Keeps {
		for _, u := range r.Keeps[:i] {
			if t.State == u.State && t.Offset < u.Offset+out[u.Tensor].Bytes &&
				u.Offset < t.Offset+out[t.Tensor].Bytes {
				return diag.New(
					ErrInput, method,
					"outputs %d and %d are both kept at offset %d of a state; want ranges that do not overlap",
					u.Tensor, t.Tensor, max(t.Offset, u.Offset))
			}
		}
	}
	return nil
}

// Wants reports whether the host reads output i.
func (r Run) Wants(i int) bool { return r.Outputs == nil || r.Outputs[i] }

// Fed reports whether input i comes from a state.
func (r Run) Fed(i int) bool {
	return slices.ContainsFunc(r.Feeds, func(t Transfer) bool { return t.Tensor == i })
}

// CheckStateRange returns ErrInput unless n bytes at the offset lie inside a state of the given size. subject begins
// the error message.
func CheckStateRange(subject string, offset int64, n int, size int64) error {
	if offset < 0 || offset > size || int64(n) > size-offset {
		return diag.New(ErrInput, subject, "%d bytes at %d of a state of %d", n, offset, size)
	}
	return nil
}

// Computed returns which outputs the run computes: the wanted and the kept ones. Nil means all.
func (r Run) Computed() []bool {
	if r.Outputs == nil {
		return nil
	}
	out := slices.Clone(r.Outputs)
	for _, t := range r.Keeps {
		out[t.Tensor] = true
	}
	return out
}
