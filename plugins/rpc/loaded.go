package rpc

import (
	"context"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// An Executable is a program loaded in a backend's process. It implements device.Executable.
type Executable struct {
	s       *Session
	prog    *program.Program
	id      uint64
	kernels []device.Kernel
	memory  int64

	stores bool   // the program updates its state
	binder binder // guarded by the session's runSlot, as is closed
	closed bool
}

var _ device.Executable = (*Executable)(nil)

// Kernels reports how each distinct op of the program is run.
func (e *Executable) Kernels() []device.Kernel { return e.kernels }

// Memory is the memory of runs beside the program's own, as the backend reports it.
func (e *Executable) Memory() int64 { return e.memory }

// Close frees the program in the backend. The session stays usable. It waits for a run of any executable of the session to
// end, for as long as an unload may take. ErrBusy means that the run did not end, and Close may be called again.
func (e *Executable) Close() error {
	s := e.s
	limit := time.NewTimer(s.opts.Timeouts.Unload)
	defer limit.Stop()
	select {
	case s.runSlot <- struct{}{}:
		defer func() { <-s.runSlot }()
	case <-s.dead.Done():
		return nil // freed with the process
	case <-limit.C:
		return diag.New(ErrBusy, s.name, "%s is not unloaded: a run went on for %v", e.prog.Method, s.opts.Timeouts.Unload).
			WithHint("close it when the run has ended, or close the session")
	}
	if e.closed || s.fault() != nil {
		return nil
	}
	e.closed = true
	what := func() string { return "while it unloaded " + e.prog.Method }
	return s.call(context.Background(), s.opts.Timeouts.Unload, what, func(ctx context.Context) error {
		_, err := s.api.Unload(ctx, &rlxv1.UnloadRequest{Executable: e.id})
		return err
	})
}

// Run executes the program once. Inputs are copied out of r.IO before the run and outputs into it afterwards, if
// the run succeeded. Cancelling ctx ends the run between two steps and leaves the session usable. A deadline that passes ends the
// backend, since nothing else bounds the time it may take. r.Progress is called for some of the steps, at most ten times a
// second.
func (e *Executable) Run(ctx context.Context, r device.Run) (device.Stats, error) {
	if int64(len(r.IO)) < e.prog.IOSize {
		return noStats(), diag.New(device.ErrInput, e.prog.Method, "io space of %d bytes given; the program has %d",
			len(r.IO), e.prog.IOSize)
	}
	return e.run(ctx, r, func(b *binding) ([][]byte, func() [][]byte, error) {
		return cut(r.IO, b.inputs), func() [][]byte { return cut(r.IO, b.outputs) }, nil
	})
}

// RunTensors is Run with one slice for each input of the program, dense and exactly as large as its shape for syms (of any size,
// such as nil, if r.Feeds has the input). It allocates and returns a slice for each output, nil if it is not wanted. r.IO is not
// used.
func (e *Executable) RunTensors(ctx context.Context, r device.Run, in [][]byte) (out [][]byte, st device.Stats, err error) {
	st, err = e.run(ctx, r, func(b *binding) ([][]byte, func() [][]byte, error) {
		g := e.prog.Graph
		if len(in) != len(b.inputs) {
			return nil, nil, diag.New(device.ErrInput, e.prog.Method, "%d inputs given; the program has %d", len(in), len(b.inputs))
		}
		for i, o := range b.in {
			if int64(len(in[i])) != o.Bytes && !r.Fed(i) {
				return nil, nil, diag.New(device.ErrInput, e.prog.Method, "input %s has %d bytes; %v%v takes %d",
					g.Inputs()[i].Label(), len(in[i]), o.DType, o.Shape, o.Bytes)
			}
		}
		return in, func() [][]byte {
			for i, o := range b.outputs {
				if r.Wants(i) {
					b := tensor.AlignedBytes(int(o.Size))
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

// noStats are the statistics of a run that failed.
func noStats() device.Stats { return device.Stats{FirstNaN: -1} }
