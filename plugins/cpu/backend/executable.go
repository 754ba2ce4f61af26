package backend

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cpu/kernels"
)

type executable struct {
	p              *program.Program
	weights, arena []byte
	free           func()
	pool           *kernels.Pool
	run            []func(*call) error // per step
	native         []bool              // per step: a kernel runs it
	kernels        []device.Kernel
	precision      kernels.Precision

	// The calls of the last run, kept as long as sizes and IO space stay the same.
	calls []call
	plain bool // without squares
	syms  map[string]int64
	io    []byte
}

// Kernels reports which ops have a kernel of their own.
func (x *executable) Kernels() []device.Kernel { return x.kernels }

// Close ends the workers and gives the arena back.
func (x *executable) Close() error {
	x.pool.Close()
	if x.free != nil {
		x.free()
	}
	x.free, x.arena = nil, nil
	return nil
}

// bind resolves every operand of every step to bytes.
func (x *executable) bind(r device.Run) error {
	plain := r.Opts.CheckNaN || len(r.Opts.Dump) > 0 // values are looked at
	if x.calls != nil && x.plain == plain && maps.Equal(x.syms, r.Syms) && len(x.io) == len(r.IO) && (len(r.IO) == 0 || &x.io[0] == &r.IO[0]) {
		return nil
	}
	b, err := x.p.Bind(r.Syms)
	if err != nil {
		return diag.New(device.ErrInput, x.p.Method, "%w", err)
	}
	if int64(len(r.IO)) < x.p.IOSize {
		return diag.New(device.ErrInput, x.p.Method, "%d bytes of inputs and outputs; the program needs %d", len(r.IO), x.p.IOSize)
	}
	view := func(o program.Operand) tensor.Tensor {
		space := [...][]byte{program.Weights: x.weights, program.Arena: x.arena, program.IO: r.IO}[o.Space]
		return tensor.Tensor{DType: o.DType, Shape: o.Shape, Data: space[o.Offset : o.Offset+o.Bytes : o.Offset+o.Bytes]}
	}
	calls := make([]call, len(b.Steps))
	for i, s := range b.Steps {
		c := call{pool: x.pool, precision: x.precision, node: s.Node, native: x.native[i], in: make([]tensor.Tensor, len(s.In)), out: view(s.Outs[0])}
		for k, o := range s.In {
			c.in[k] = view(o)
		}
		if s.Node.Op.Tuple {
			for _, o := range s.Outs {
				c.outs = append(c.outs, view(o))
			}
		}
		calls[i] = c
	}
	if !plain {
		x.chooseSquares(b, calls)
	}
	x.calls, x.plain, x.syms, x.io = calls, plain, maps.Clone(r.Syms), r.IO
	return nil
}

// Run executes the steps in order.
func (x *executable) Run(ctx context.Context, r device.Run) (device.Stats, error) {
	stats := device.Stats{FirstNaN: -1}
	start := time.Now()
	if err := x.bind(r); err != nil {
		return stats, err
	}
	if r.Opts.Profile {
		stats.Steps = make([]device.Step, 0, len(x.calls))
	}
	for i := range x.calls {
		if ctx.Err() != nil {
			return stats, context.Cause(ctx)
		}
		if r.Progress != nil {
			r.Progress(i)
		}
		begin := time.Since(start)
		if err := x.step(i); err != nil {
			return stats, err
		}
		if r.Opts.Profile {
			stats.Steps = append(stats.Steps, device.Step{Node: x.p.Steps[i].Node, Start: begin, Time: time.Since(start) - begin})
		}
		if x.plain {
			if err := x.look(i, r.Opts, &stats); err != nil {
				return stats, err
			}
		}
	}
	if r.Progress != nil {
		r.Progress(len(x.calls))
	}
	stats.Total = time.Since(start)
	return stats, nil
}

// look hands the results of a step out and searches them for NaN, as a run wants. Values are handed out as they are made:
// later steps reuse their storage.
func (x *executable) look(i int, o device.RunOptions, stats *device.Stats) error {
	c := &x.calls[i]
	for k, n := range c.node.Values() {
		out := c.results()[k]
		if o.Observe != nil && slices.Contains(o.Dump, n.ID) {
			if err := o.Observe(n.ID, out.Shape, out.Data); err != nil {
				return err
			}
		}
		if o.CheckNaN && out.HasNaN() {
			stats.FirstNaN = n.ID
			return diag.New(device.ErrNaN, n.Label(), "%s produced a NaN in %v", c.node.Op.Name, n.Type)
		}
	}
	return nil
}

// step runs one kernel. Errors and panics name the node and the op; the host, which counts steps, adds the number.
func (x *executable) step(i int) (err error) {
	c := &x.calls[i]
	defer func() {
		if r := recover(); r != nil {
			err = diag.New(diag.Internal, c.node.Label(), "%s panicked: %v\n%s", c.node.Op.Name, r, bytes.TrimSpace(debug.Stack()))
		}
	}()
	if err = x.run[i](c); err == nil {
		return nil
	}
	code := device.ErrInput // what depends on values is an index out of range, or a division by zero
	var coded *diag.Error
	if errors.As(err, &coded) && coded.Code.Exit() != code.Exit() {
		code = coded.Code // a finer code for bad input stays in the chain: callers and the protocol know device.ErrInput
	}
	return diag.New(code, c.node.Label(), "%s: %w", c.node.Op.Name, err)
}
