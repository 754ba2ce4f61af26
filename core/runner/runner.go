// Package runner runs programs whose values are in the memory of the process. It gives every operand of a step its
// shape and memory, and calls a function for each step that the run needs. It also does what a run may request besides:
// progress, times, observed values, a search for NaN, inputs and outputs in states. The caller provides the functions.
// Package sdk/backend and the cpu backend use it.
package runner

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"runtime/debug"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
)

// Call is a step with its operands and results, which are dense and row-major. A result may have the memory of an
// operand that the op's InPlace lists, or of the state that the op updates.
type Call struct {
	Node *ir.Node
	In   []tensor.Tensor // as Node.In; the zero Tensor for an absent optional operand
	Out  []tensor.Tensor // one result, unless the op has several
}

// Config says what a Runner runs.
type Config struct {
	Program *program.Program
	// the spaces of the program; Arena has at least Program.ArenaSize bytes, aligned to program.Align
	Weights, Arena []byte
	// Step runs step i and returns 1. Unless alone is set, it may also run steps after it and return how many it ran in
	// all; needed has the steps that the run needs, or is nil for all. An error, or a panic, is reported with the name
	// of step i's node and its op.
	Step func(i int, alone bool, needed []bool) (done int, err error)
	// Skip lets a run leave out steps whose results it does not use, once it knows the condition (program.Skips). The
	// kernels must then cope with any bytes in operands that do not matter. Runs that look at values run all steps.
	Skip bool
	// Bound, if not nil, is called before a run whose calls have other shapes or memory than those of the run before.
	// observed is set if the run looks at values after each step.
	Bound func(observed bool)
}

// Runner runs one program. Its runs must not overlap.
type Runner struct {
	Config
	inputs, outputs []int // node IDs
	skips           *program.Skips
	live            []bool // by step: whether the current run needs it, as far as is known

	binder  *program.Binder
	values  *program.Values
	calls   []Call  // by step
	resized []value // the operands and results in calls whose sizes depend on symbols
	// the replaced params and their views, by node, and the space of the weights with the new values; nil if nothing
	// has been replaced
	replaced   []bool
	newWeights []byte
	bound      binding // the run that values and calls were made for

	ctx      context.Context // of the current run, and its device.Run.Progress
	progress func(step int)

	counts bool    // whether the run counts the arithmetic of its loops
	flops  int64   // counted so far: the steps of a loop's program, or the loops of a run
	work   []int64 // of a loop's program: arithmetic by step
}

// binding has everything on which the operands of a run depend. A Runner keeps only the calls of the last run. When the
// sizes change, it updates shapes and slice lengths in place, which is faster than fetching another set of calls into
// the processor's cache.
type binding struct {
	valid     bool // false until the first successful bind
	syms      map[string]int64
	observed  bool // values are examined after each step
	io, state []byte
}

// value is an operand or a result of a call.
type value struct {
	t    *tensor.Tensor
	node int
}

// New returns a Runner. The program must not change afterwards.
func New(c Config) *Runner {
	r := &Runner{Config: c, binder: program.NewBinder(c.Program)}
	for _, n := range c.Program.Graph.Inputs() {
		r.inputs = append(r.inputs, n.ID)
	}
	for _, o := range c.Program.Graph.Outputs {
		r.outputs = append(r.outputs, o.Node.ID)
	}
	if c.Skip {
		if r.skips = c.Program.Skips(); r.skips != nil {
			r.live = make([]bool, len(c.Program.Steps))
		}
	}
	r.makeCalls()
	return r
}

// Call returns step i. Its node is set at once, its operands by each run before the first step.
func (r *Runner) Call(i int) *Call { return &r.calls[i] }

// SetWeights replaces the values of params; see device.WeightSetter. w.Weights must stay as it is until the next call.
func (r *Runner) SetWeights(w device.NewWeights) {
	if r.replaced == nil {
		r.replaced = make([]bool, len(r.Program.Graph.Nodes))
	}
	for i, reads := range device.Reading(r.Program, w.Params) {
		r.replaced[i] = r.replaced[i] || reads
	}
	r.newWeights = w.Weights
	r.bound.valid = false
}

// bytes returns the memory of a value. spaces are indexed by program.Space.
func (r *Runner) bytes(spaces [][]byte, node int) []byte {
	o := &r.values.Operands[node]
	space := spaces[o.Space]
	if r.replaced != nil && r.replaced[node] {
		space = r.newWeights
	}
	return space[o.Offset : o.Offset+o.Bytes : o.Offset+o.Bytes]
}

// Operand returns the shape and place of a node's value in the current run.
func (r *Runner) Operand(n *ir.Node) *program.Operand { return &r.values.Operands[n.ID] }

// Run executes the steps in order. Between two steps it checks ctx.
func (r *Runner) Run(ctx context.Context, run device.Run) (device.Stats, error) {
	stats := device.Stats{FirstNaN: -1}
	start := clock()
	if err := r.bind(run); err != nil {
		return stats, err
	}
	if err := run.CopyFeeds(func(i int) []byte { return r.ioValue(run.IO, r.inputs[i]) }); err != nil {
		return stats, err
	}
	needed := r.Program.Needed(run.Computed(), run.Opts.Dump)
	skips := r.skips
	if r.bound.observed {
		skips = nil
	}
	if skips != nil {
		needed = r.start(needed, run.IO)
	}
	r.ctx, r.progress, r.counts = ctx, run.Progress, run.Opts.Profile
	if run.Opts.Profile {
		stats.Steps = make([]device.Step, 0, len(r.calls))
	}
	alone := run.Opts.Profile || r.bound.observed
	for i, done := 0, 1; i < len(r.calls); i += done {
		if ctx.Err() != nil {
			return stats, context.Cause(ctx)
		}
		done = 1
		if needed != nil && !needed[i] {
			continue
		}
		if run.Progress != nil {
			run.Progress(i)
		}
		var begin time.Duration
		if run.Opts.Profile {
			begin = clock() - start
		}
		var err error
		if done, err = r.step(i, alone, needed); err != nil {
			return stats, err
		}
		if skips != nil {
			r.know(i, done)
		}
		if run.Opts.Profile {
			stats.Steps = append(stats.Steps, r.profiled(i, begin, clock()-start))
		}
		if r.bound.observed {
			if err := r.examine(i, run.Opts, &stats); err != nil {
				return stats, err
			}
		}
	}
	if err := run.CopyKeeps(func(i int) []byte { return r.ioValue(run.IO, r.outputs[i]) }); err != nil {
		return stats, err
	}
	if run.Progress != nil {
		run.Progress(len(r.calls))
	}
	stats.Total = clock() - start
	return stats, nil
}

// profiled returns the time of step i, which ended just now.
func (r *Runner) profiled(i int, begin, end time.Duration) device.Step {
	s := device.Step{Node: r.Program.Steps[i].Node, Start: begin, Time: end - begin}
	if r.Program.Loop(s.Node) != nil {
		n := r.flops
		s.FLOPs, r.flops = &n, 0
	}
	return s
}

// start returns the steps that a run needs, as far as they are known before the first step. needed has the steps that
// the run asks for; nil means all. start returns needed if no condition makes a step unnecessary.
func (r *Runner) start(needed []bool, io []byte) []bool {
	if r.skips == nil {
		return needed
	}
	for i := range r.live {
		r.live[i] = needed == nil || needed[i]
	}
	for _, c := range r.skips.Inputs {
		r.skip(c, r.ioValue(io, c.Node))
	}
	return r.live
}

// know marks the steps that the run does not need, as it is known after the steps from i on.
func (r *Runner) know(i, done int) {
	for k := i; k < i+done; k++ {
		for _, c := range r.skips.Steps[k] {
			for j, v := range r.calls[k].Node.Values() {
				if v.ID == c.Node {
					r.skip(c, r.calls[k].Out[j].Data)
				}
			}
		}
	}
}

// skip marks the steps that a condition makes unnecessary.
func (r *Runner) skip(c program.Condition, value []byte) {
	k := 0
	if value[0] != 0 {
		k = 1
	}
	for _, step := range c.Steps[k] {
		r.live[step] = false
	}
}

// step calls Config.Step. Errors, and panics of a kernel, name the node and the op. The host adds the step's number.
func (r *Runner) step(i int, alone bool, needed []bool) (done int, err error) {
	n := r.calls[i].Node
	defer func() {
		if p := recover(); p != nil {
			err = diag.New(diag.Internal, n.Label(), "%s panicked: %v\n%s", n.OpName(), p,
				bytes.TrimSpace(debug.Stack()))
		}
	}()
	if done, err = r.Step(i, alone, needed); err == nil {
		return done, nil
	}
	code := device.ErrInput // kernels fail only for bad values: an index out of range, a division by zero
	var coded *diag.Error
	if errors.As(err, &coded) && coded.Code.Exit() != code.Exit() {
		// more precise codes for bad input stay wrapped, since callers and the protocol test for device.ErrInput
		code = coded.Code
	}
	return 0, device.StepError(code, n, err)
}

// examine passes the results of a step to the run's observer and searches them for NaN. It is called after each step,
// because later steps reuse the memory.
func (r *Runner) examine(i int, o device.RunOptions, stats *device.Stats) error {
	c := &r.calls[i]
	for k, n := range c.Node.Values() {
		if err := o.Examine(c.Node, n, stats, func() (tensor.Tensor, error) { return c.Out[k], nil }); err != nil {
			return err
		}
	}
	return nil
}

// same reports whether two slices are the same memory.
func same(a, b []byte) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// bind gives every operand of every step its shape and memory. It does nothing if the last run had the same sizes and
// memory.
func (r *Runner) bind(run device.Run) error {
	was, state := r.bound, device.HostBytes(run.State)
	observed := run.Opts.CheckNaN || len(run.Opts.Dump) > 0
	moved := !was.valid || !same(was.io, run.IO) || !same(was.state, state)
	if !moved && was.observed == observed && maps.Equal(was.syms, run.Syms) {
		return r.checkState(run)
	}
	if p := r.Program; int64(len(run.IO)) < p.IOSize {
		return diag.New(device.ErrInput, p.Method, "%d bytes of inputs and outputs; the program needs %d", len(run.IO),
			p.IOSize)
	}
	if err := r.binder.Check(run.Syms); err != nil {
		return diag.New(device.ErrInput, r.Program.Method, "%w", err)
	}
	r.bound.valid = false
	r.values = r.binder.Values(run.Syms, r.values)
	if err := r.checkState(run); err != nil { // before operands are sliced out of it
		return err
	}
	spaces := [...][]byte{program.Weights: r.Weights, program.Arena: r.Arena, program.IO: run.IO, program.State: state}
	if moved {
		r.fill(spaces[:])
	} else {
		for _, v := range r.resized {
			v.t.Data = r.bytes(spaces[:], v.node)
		}
	}
	if r.Bound != nil {
		r.Bound(observed)
	}
	syms := was.syms
	if !maps.Equal(syms, run.Syms) {
		syms = maps.Clone(run.Syms)
	}
	r.bound = binding{true, syms, observed, run.IO, state}
	return nil
}

// makeCalls allocates the calls. fill adds their operands.
func (r *Runner) makeCalls() {
	operands := 0
	nodes := make([]*ir.Node, len(r.Program.Steps))
	for i, s := range r.Program.Steps {
		n := r.Program.Graph.Nodes[s.Node]
		nodes[i] = n
		operands += len(n.In) + len(n.Values())
	}
	tensors := make([]tensor.Tensor, operands) // one allocation for all calls
	take := func(n int) (out []tensor.Tensor) {
		out, tensors = tensors[:n:n], tensors[n:]
		return out
	}
	r.calls = make([]Call, len(nodes))
	for i, n := range nodes {
		r.calls[i] = Call{n, take(len(n.In)), take(len(n.Values()))}
	}
}

// fill points the operands and results of all calls into spaces, which are indexed by program.Space.
func (r *Runner) fill(spaces [][]byte) {
	r.resized = r.resized[:0]
	set := func(t *tensor.Tensor, n *ir.Node) {
		o := &r.values.Operands[n.ID]
		t.DType, t.Shape, t.Data = o.DType, o.Shape, r.bytes(spaces, n.ID)
		if !n.Type.Shape.IsStatic() {
			r.resized = append(r.resized, value{t, n.ID})
		}
	}
	for i := range r.calls {
		c := &r.calls[i]
		for k, n := range c.Node.Operands() {
			set(&c.In[k], n)
		}
		for k, n := range c.Node.Values() {
			set(&c.Out[k], n)
		}
	}
}

// checkState checks the state, feeds, keeps and outputs of a run against the program and the sizes in values.
func (r *Runner) checkState(run device.Run) error {
	if run.State == nil && run.Feeds == nil && run.Keeps == nil && run.Outputs == nil && r.Program.StateSize == 0 {
		return nil
	}
	values := func(nodes []int) (out []program.Operand) {
		for _, n := range nodes {
			out = append(out, r.values.Operands[n])
		}
		return out
	}
	return run.CheckState(r.Program, values(r.inputs), values(r.outputs))
}

// ioValue returns the memory of an input or output in the io space.
func (r *Runner) ioValue(io []byte, node int) []byte {
	v := &r.values.Operands[node]
	return io[v.Offset : v.Offset+v.Bytes]
}
