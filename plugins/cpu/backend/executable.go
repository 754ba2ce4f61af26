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
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cpu/kernels"
)

type executable struct {
	p              *program.Program
	weights, arena []byte
	wide           []byte // see call.wide
	free           []func()
	pool           *kernels.Pool
	run            []func(*call) error // by step
	native         []bool              // by step; see call.native
	joints         []joint             // by step
	kernels        []device.Kernel
	memory         int64 // see Memory
	precision      kernels.Precision

	inputs, outputs []int      // node IDs
	operands        int        // number of operands and results of all steps
	readers         [][]reader // see readersOf; nil until chooseBlocked first needs it

	binder  *program.Binder
	values  *program.Values
	calls   []call  // by step
	resized []value // the operands and results in calls whose sizes depend on symbols
	bound   binding // the run that values and calls were made for
}

// binding is what the operands of a run depend on. An executable keeps the calls of the last run only. When the sizes change, it
// updates shapes and slice lengths in place, which is faster than fetching another set of calls into the processor's cache.
type binding struct {
	valid     bool // false until the first successful bind
	syms      map[string]int64
	plain     bool // no value is blocked, because an observer reads them
	io, state []byte
}

// value is an operand or a result of a call.
type value struct {
	t    *tensor.Tensor
	node int
}

// same reports whether two slices are the same memory.
func same(a, b []byte) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// Kernels reports which ops have a kernel of their own.
func (x *executable) Kernels() []device.Kernel { return x.kernels }

// Memory returns an upper bound of the scratch memory of kernels and definitions, in bytes.
func (x *executable) Memory() int64 { return x.memory }

// allocate returns zeroed memory that Close frees.
func (x *executable) allocate(bytes int64) ([]byte, error) {
	b, free, err := allocate(bytes)
	if free != nil {
		x.free = append(x.free, free)
	}
	return b, err
}

// Close stops the workers and frees the memory.
func (x *executable) Close() error {
	x.pool.Close()
	for _, free := range x.free {
		free()
	}
	x.free, x.arena, x.wide = nil, nil, nil
	return nil
}

// bind gives every operand of every step its shape and memory for the run r. It does nothing if the last run had the same sizes and
// memory.
func (x *executable) bind(r device.Run) error {
	was, state := x.bound, device.HostBytes(r.State)
	plain := r.Opts.CheckNaN || len(r.Opts.Dump) > 0
	moved := !was.valid || !same(was.io, r.IO) || !same(was.state, state)
	if !moved && was.plain == plain && maps.Equal(was.syms, r.Syms) {
		return x.checkState(r)
	}
	if int64(len(r.IO)) < x.p.IOSize {
		return diag.New(device.ErrInput, x.p.Method, "%d bytes of inputs and outputs; the program needs %d", len(r.IO), x.p.IOSize)
	}
	if err := x.binder.Check(r.Syms); err != nil {
		return diag.New(device.ErrInput, x.p.Method, "%w", err)
	}
	if x.calls == nil {
		x.makeCalls()
	}
	x.bound.valid = false
	x.values = x.binder.Values(r.Syms, x.values)
	if err := x.checkState(r); err != nil { // before operands are sliced out of it
		return err
	}
	spaces := [...][]byte{program.Weights: x.weights, program.Arena: x.arena, program.IO: r.IO, program.State: state}
	if moved {
		x.fill(spaces[:])
	} else {
		for _, v := range x.resized {
			o := &x.values.Operands[v.node]
			v.t.Data = spaces[o.Space][o.Offset : o.Offset+o.Bytes : o.Offset+o.Bytes]
		}
		for i := range x.calls {
			x.calls[i].forget()
		}
	}
	if !plain {
		x.chooseBlocked()
	}
	syms := was.syms
	if !maps.Equal(syms, r.Syms) {
		syms = maps.Clone(r.Syms)
	}
	x.bound = binding{true, syms, plain, r.IO, state}
	return nil
}

// makeCalls allocates the calls. fill adds their operands.
func (x *executable) makeCalls() {
	x.calls = make([]call, len(x.p.Steps))
	views := make([]tensor.Tensor, x.operands) // one allocation for all calls
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
		x.calls[i] = c
	}
}

// fill points the operands and results of all calls into spaces, which are indexed by program.Space.
func (x *executable) fill(spaces [][]byte) {
	x.resized = x.resized[:0]
	set := func(t *tensor.Tensor, n *ir.Node) {
		o := &x.values.Operands[n.ID]
		t.DType, t.Shape, t.Data = o.DType, o.Shape, spaces[o.Space][o.Offset:o.Offset+o.Bytes:o.Offset+o.Bytes]
		if !n.Type.Shape.IsStatic() {
			x.resized = append(x.resized, value{t, n.ID})
		}
	}
	for i := range x.calls {
		c := &x.calls[i]
		c.forget()
		for k, n := range c.node.Operands() {
			set(&c.in[k], n)
		}
		values := c.node.Values()
		for k := range c.outs {
			set(&c.outs[k], values[k])
		}
		if c.outs == nil {
			set(&c.out, c.node)
		} else {
			set(&c.out, values[0])
		}
	}
}

// forget drops what a call has stored for its last shapes and memory.
func (c *call) forget() { c.inBlocked, c.outBlocked, c.dst, c.src = false, false, nil, nil }

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
	alone := r.Opts.Profile || x.bound.plain // each step runs by itself
	for i, done := 0, 1; i < len(x.calls); i += done {
		if ctx.Err() != nil {
			return stats, context.Cause(ctx)
		}
		if done = 1; steps != nil && !steps[i] {
			continue
		}
		if r.Progress != nil {
			r.Progress(i)
		}
		var begin time.Duration
		if r.Opts.Profile {
			begin = time.Since(start)
		}
		var err error
		if done, err = x.step(i, alone, steps); err != nil {
			return stats, err
		}
		if r.Opts.Profile {
			stats.Steps = append(stats.Steps, device.Step{Node: x.p.Steps[i].Node, Start: begin, Time: time.Since(start) - begin})
		}
		if x.bound.plain {
			if err := x.inspect(i, r.Opts, &stats); err != nil {
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

// inspect passes the results of a step to the run's observer and searches them for NaN, if the run asks for that. It is called after
// each step, because later steps reuse the memory.
func (x *executable) inspect(i int, o device.RunOptions, stats *device.Stats) error {
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

// step runs step i and, unless it is to run alone, the steps after it that run jointly with it. needed is that of Program.Needed. step returns the
// number of steps. Errors, and panics of a kernel, name the node and the op. The host adds the step's number.
func (x *executable) step(i int, alone bool, needed []bool) (done int, err error) {
	c := &x.calls[i]
	defer func() {
		if r := recover(); r != nil {
			err = diag.New(diag.Internal, c.node.Label(), "%s panicked: %v\n%s", c.node.Op.Name, r, bytes.TrimSpace(debug.Stack()))
		}
	}()
	if !alone {
		if done = x.runJoint(i, needed); done > 0 {
			return done, nil
		}
	}
	if err = x.run[i](c); err == nil {
		return 1, nil
	}
	code := device.ErrInput // kernels fail only for bad values: an index out of range, a division by zero
	var coded *diag.Error
	if errors.As(err, &coded) && coded.Code.Exit() != code.Exit() {
		code = coded.Code // more precise codes for bad input stay wrapped, since callers and the protocol test for device.ErrInput
	}
	return 0, diag.New(code, c.node.Label(), "%s: %w", c.node.Op.Name, err)
}
