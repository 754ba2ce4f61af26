package backend

import (
	"bytes"
	"context"
	"errors"
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
	wide           []byte // see call
	free           []func()
	pool           *kernels.Pool
	run            []func(*call) error // per step
	native         []bool              // per step: a kernel runs it
	kernels        []device.Kernel
	memory         int64 // see Memory
	precision      kernels.Precision

	inputs, outputs []int      // nodes
	operands        int        // of all steps, results included
	readers         [][]reader // see chooseBlocked; made by the first run that asks

	binder   *program.Binder
	recent   program.Recent[*binding]
	*binding // of the run
}

// binding are the calls of a run. It is for one IO space and one state.
type binding struct {
	calls     []call
	values    *program.Values
	plain     bool // an observer reads the values, so none are blocked
	io, state []byte
}

func (b *binding) fits(io, state []byte, plain bool) bool {
	return b.plain == plain && same(b.io, io) && same(b.state, state)
}

// same reports whether two slices are the same memory.
func same(a, b []byte) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// Kernels reports which ops have a kernel of their own.
func (x *executable) Kernels() []device.Kernel { return x.kernels }

// Memory is what kernels and definitions compute in, at most.
func (x *executable) Memory() int64 { return x.memory }

// allocate gives zero memory that Close takes back.
func (x *executable) allocate(bytes int64) ([]byte, error) {
	b, free, err := allocate(bytes)
	if free != nil {
		x.free = append(x.free, free)
	}
	return b, err
}

// Close ends the workers and gives the memory back.
func (x *executable) Close() error {
	x.pool.Close()
	for _, free := range x.free {
		free()
	}
	x.free, x.arena, x.wide = nil, nil, nil
	return nil
}

// bind resolves every operand of every step to bytes. Sizes that are forgotten leave their memory to the new ones.
func (x *executable) bind(r device.Run) error {
	plain := r.Opts.CheckNaN || len(r.Opts.Dump) > 0
	b, seen := x.recent.Get(r.Syms)
	if seen && b.fits(r.IO, device.HostBytes(r.State), plain) {
		x.binding = b
		return x.checkState(r)
	}
	if int64(len(r.IO)) < x.p.IOSize {
		return diag.New(device.ErrInput, x.p.Method, "%d bytes of inputs and outputs; the program needs %d", len(r.IO), x.p.IOSize)
	}
	if err := x.binder.Check(r.Syms); err != nil {
		return diag.New(device.ErrInput, x.p.Method, "%w", err)
	}
	if !seen {
		if b = x.recent.Oldest(); b == nil {
			b = x.newBinding()
		}
	}
	b.values = x.binder.Values(r.Syms, b.values)
	b.plain, b.io, b.state = plain, r.IO, device.HostBytes(r.State)
	x.binding = b
	if err := x.checkState(r); err != nil { // before anything is cut out of it
		return err
	}
	x.fill(b)
	if !plain {
		x.chooseBlocked(b)
	}
	x.recent.Put(r.Syms, b)
	x.binding = b
	return nil
}

// newBinding makes calls without values.
func (x *executable) newBinding() *binding {
	b := &binding{calls: make([]call, len(x.p.Steps))}
	views := make([]tensor.Tensor, x.operands) // of all calls: one allocation
	take := func(n int) (out []tensor.Tensor) {
		out, views = views[:n:n], views[n:]
		return out
	}
	for i, s := range x.p.Steps {
		n := x.p.Graph.Nodes[s.Node]
		c := call{pool: x.pool, precision: x.precision, node: n, native: x.native[i], wide: x.wide, in: take(len(n.In))}
		if n.Op.Tuple {
			c.outs = take(len(n.Values()))
		}
		b.calls[i] = c
	}
	return b
}

// fill resolves the operands of all calls to bytes.
func (x *executable) fill(b *binding) {
	spaces := [...][]byte{program.Weights: x.weights, program.Arena: x.arena, program.IO: b.io, program.State: b.state}
	set := func(t *tensor.Tensor, node int) {
		o := &b.values.Operands[node]
		t.DType, t.Shape, t.Data = o.DType, o.Shape, spaces[o.Space][o.Offset:o.Offset+o.Bytes:o.Offset+o.Bytes]
	}
	for i := range b.calls {
		c := &b.calls[i]
		for k, n := range c.node.In {
			set(&c.in[k], n.ID)
		}
		for k := range c.outs {
			set(&c.outs[k], c.node.ID+1+k) // the selectors
		}
		if c.outs == nil {
			set(&c.out, c.node.ID)
		} else {
			c.out = c.outs[0]
		}
		c.inBlocked, c.outBlocked, c.dst, c.src = false, false, nil, nil
	}
}

// Run executes the steps in order.
func (x *executable) Run(ctx context.Context, r device.Run) (device.Stats, error) {
	stats := device.Stats{FirstNaN: -1}
	start := time.Now()
	if err := x.bind(r); err != nil {
		return stats, err
	}
	if err := r.CopyFeeds(func(i int) []byte { return x.ioValue(r.IO, x.inputs[i]) }); err != nil {
		return stats, err
	}
	steps := x.p.Needed(r.Computed(), r.Opts.Dump)
	if r.Opts.Profile {
		stats.Steps = make([]device.Step, 0, len(x.calls))
	}
	for i := range x.calls {
		if ctx.Err() != nil {
			return stats, context.Cause(ctx)
		}
		if steps != nil && !steps[i] {
			continue
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
	if err := r.CopyKeeps(func(i int) []byte { return x.ioValue(r.IO, x.outputs[i]) }); err != nil {
		return stats, err
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
