package host

import (
	"context"
	"time"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"

	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// An Executable is a program loaded in a backend's process. It implements device.Executable.
type Executable struct {
	session *Session
	prog    *program.Program
	id      uint64
	kernels []device.Kernel
	memory  int64

	mapped bool // whether new weights are in memory that the backend maps
	stores bool // whether the program updates its state
	spins  bool // whether the host may spin while it waits for a result; see wire.ShortRun

	// The session's runSlot guards these.
	binder    wire.Binder
	closed    bool
	constants constants
	last      time.Duration // duration of the last successful run, as reported by the backend
	announces bool          // the backend has announced outputs before the end of the last successful run
}

var _ device.Executable = (*Executable)(nil)

// Kernels returns the kernel of each distinct op of the program.
func (e *Executable) Kernels() []device.Kernel { return e.kernels }

// Memory returns how many bytes a run needs beyond the program's own memory, as reported by the backend.
func (e *Executable) Memory() int64 { return e.memory }

// Close frees the program in the backend. The session stays usable. Close waits until no executable of the session
// runs. If that takes longer than Timeouts.Unload, it returns code.Busy, and may be called again.
func (e *Executable) Close() error {
	s := e.session
	limit := time.NewTimer(s.opts.Timeouts.Unload)
	defer limit.Stop()
	select {
	case s.runSlot <- struct{}{}:
		defer func() { <-s.runSlot }()
	case <-s.dead.Done():
		return nil // freed with the process
	case <-limit.C:
		return diag.New(code.Busy, s.name, "%s was not unloaded, because a run took longer than %v", e.prog.Method,
			s.opts.Timeouts.Unload).
			WithHint("close it when the run has ended, or close the session")
	}
	if e.closed || s.Err() != nil {
		return nil
	}
	e.closed = true
	what := func() string { return "while it unloaded " + e.prog.Method }
	return s.call(context.Background(), s.opts.Timeouts.Unload, what, func(ctx context.Context) error {
		_, err := s.api.Unload(ctx, &rlxv1.UnloadRequest{Executable: e.id})
		return err
	})
}

// Run executes the program once. It copies the inputs out of r.IO before the run and, if the run succeeds, the outputs
// into r.IO afterwards. Cancelling ctx ends the run between two steps, and the session stays usable. If a deadline
// passes, the backend is killed, because nothing else limits the time that it takes. Run calls r.Progress for some of
// the steps, at most ten times a second.
func (e *Executable) Run(ctx context.Context, r device.Run) (device.Stats, error) {
	if int64(len(r.IO)) < e.prog.IOSize {
		return noStats(), diag.New(device.ErrInput, e.prog.Method, "io space of %d bytes; the program needs %d",
			len(r.IO), e.prog.IOSize)
	}
	return e.run(ctx, r, false, func(b *wire.Binding) ([][]byte, func() [][]byte, error) {
		return wire.Cut(r.IO, b.Inputs), func() [][]byte { return wire.Cut(r.IO, b.Outputs) }, nil
	})
}

// RunTensors is like Run, but takes a slice per input: dense, with exactly the bytes of its shape for the symbol
// values. The slice of an input in r.Feeds is ignored and may be nil. RunTensors returns a new slice per output, nil
// for an unwanted one. It does not use r.IO.
func (e *Executable) RunTensors(ctx context.Context, r device.Run, in [][]byte) (out [][]byte, st device.Stats,
	err error) {
	st, err = e.run(ctx, r, true, func(b *wire.Binding) ([][]byte, func() [][]byte, error) {
		g := e.prog.Graph
		if len(in) != len(b.Inputs) {
			return nil, nil, diag.New(device.ErrInput, e.prog.Method, "%d inputs given; the program has %d", len(in),
				len(b.Inputs))
		}
		for i, o := range b.In {
			if int64(len(in[i])) != o.Bytes && !r.Fed(i) {
				return nil, nil, diag.New(device.ErrInput, e.prog.Method, "input %s has %d bytes; %v%v takes %d",
					g.Inputs()[i].Label(), len(in[i]), o.DType, o.Shape, o.Bytes)
			}
		}
		return in, func() [][]byte {
			for i, o := range b.Outputs {
				if r.Wants(i) {
					b := e.newOutput(int(o.Size))
					tensor.Touch(b)
					out = append(out, b)
				} else {
					out = append(out, nil)
				}
			}
			return out
		}, nil
	})
	if err != nil {
		return nil, st, err
	}
	return out, st, nil
}

// newOutput allocates an output, without clearing it if all of it is copied from the region.
func (e *Executable) newOutput(bytes int) []byte {
	if e.session.region != nil {
		return tensor.Uncleared(bytes)
	}
	return tensor.AlignedBytes(bytes)
}

// noStats returns the statistics of a failed run.
func noStats() device.Stats { return device.Stats{FirstNaN: -1} }
