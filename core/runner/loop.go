package runner

import (
	"context"
	"fmt"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

// A Loop runs the step of a node of op loop. Its programs have runners of their own.
type Loop struct {
	attrs      op.LoopAttrs
	call       *Call
	of         *Runner // that runs the step
	step       int
	cond, body *Runner // cond is nil if the loop has no condition
	region     []byte  // of the arena
	io         []byte  // the part of region that is the IO space of cond and body
}

// NewLoop returns the loop of a step. make returns the runner of program k of program.Loop.Programs, for the arena that
// it is given.
func (r *Runner) NewLoop(step int, make func(k int, arena []byte) *Runner) *Loop {
	n := r.calls[step].Node
	l := r.Program.Loop(n.ID)
	end := l.Offset + l.Size()
	region := r.Arena[l.Offset:end:end]
	io := l.IOSize()
	x := &Loop{attrs: n.Attrs.(op.LoopAttrs), call: &r.calls[step], of: r, step: step, region: region,
		io: region[:io:io]}
	var runners []*Runner
	for k := range l.Programs() {
		runners = append(runners, make(k, region[io:]))
	}
	x.body = runners[len(runners)-1]
	if l.Cond != nil {
		x.cond = runners[0]
	}
	return x
}

// progressEvery is how often a loop reports that it goes on.
const progressEvery = 200 * time.Millisecond

// Run runs the step. Between two steps of an iteration it checks the context of the run, and it calls Run.Progress for
// its own step again from time to time.
func (l *Loop) Run() error {
	a, c := l.attrs, l.call
	ctx, progress := l.of.ctx, l.of.progress
	in, guard := c.In, true
	if last := len(in) - 1; a.Guarded {
		in, guard = in[:last], in[last].Data[0] != 0
	}
	fixed := len(in) - a.Steps // number of operands before those with slices
	if err := l.bind(); err != nil {
		return err
	}
	if l.of.counts {
		defer l.count()
	}
	for k, x := range in[:fixed] {
		copy(l.input(k), x.Data)
	}
	tell := func() {}
	if progress != nil {
		tell = func() { progress(l.step) }
	}
	done, reported := 0, time.Now()
	for guard && done < a.Length {
		if now := time.Now(); now.Sub(reported) > progressEvery {
			reported = now
			tell()
		}
		if l.cond != nil {
			if err := l.cond.iterate(ctx, tell); err != nil {
				return fmt.Errorf("iteration %d: %w", done, err)
			}
			if l.cond.ioValue(l.io, l.cond.outputs[0])[0] == 0 {
				break
			}
		}
		for k := fixed; k < len(in); k++ {
			to := l.input(k)
			copy(to, in[k].Data[done*len(to):])
		}
		if err := l.body.iterate(ctx, tell); err != nil {
			return fmt.Errorf("iteration %d: %w", done, err)
		}
		for k := range a.Carried {
			copy(l.input(k), l.body.ioValue(l.io, l.body.outputs[k]))
		}
		for i, k := range a.Results {
			if k >= a.Carried {
				row := l.input(k - a.Carried)
				copy(c.Out[i].Data[done*len(row):], row)
			}
		}
		done++
	}
	for i, k := range a.Results {
		if k < a.Carried {
			copy(c.Out[i].Data, l.input(k))
		} else {
			clear(c.Out[i].Data[done*len(l.input(k-a.Carried)):])
		}
	}
	return nil
}

// count adds the arithmetic of the iterations to that of the program that contains the loop.
func (l *Loop) count() {
	for _, r := range []*Runner{l.cond, l.body} {
		if r != nil {
			l.of.flops += r.flops
			r.flops = 0
		}
	}
}

// input returns the memory of input k of the body.
func (l *Loop) input(k int) []byte { return l.body.ioValue(l.io, l.body.inputs[k]) }

// bind gives the programs of the loop the sizes of the run.
func (l *Loop) bind() error {
	for _, r := range []*Runner{l.cond, l.body} {
		if r == nil {
			continue
		}
		var syms map[string]int64
		for _, s := range r.Program.Graph.Syms {
			if syms == nil {
				syms = map[string]int64{}
			}
			syms[s.Name] = l.of.bound.syms[s.Name]
		}
		if err := r.bind(device.Run{Syms: syms, IO: l.io}); err != nil {
			return err
		}
		if r.counts = l.of.counts; r.counts {
			r.measure()
		}
	}
	return nil
}

// iterate runs all steps once. Operands and results are in the IO space. progress reports that the run goes on.
func (r *Runner) iterate(ctx context.Context, progress func()) error {
	r.ctx, r.progress = ctx, func(int) { progress() }
	needed := r.start(nil, r.bound.io)
	for i, done := 0, 1; i < len(r.calls); i += done {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		done = 1
		if needed != nil && !needed[i] {
			continue
		}
		var err error
		if done, err = r.step(i, false, needed); err != nil {
			return err
		}
		if r.counts {
			r.count(i, done, needed)
		}
		if needed != nil {
			r.know(i, done)
		}
	}
	return nil
}

// count adds the arithmetic of steps from i on. Loops among them have added theirs.
func (r *Runner) count(i, done int, needed []bool) {
	for k := i; k < i+done; k++ {
		if needed == nil || needed[k] {
			r.flops += r.work[k]
		}
	}
}

// measure finds the arithmetic of each step at the sizes of the run: 0 for a loop, which counts its own.
func (r *Runner) measure() {
	r.flops, r.work = 0, make([]int64, len(r.calls))
	for i, c := range r.calls {
		if r.Program.Loop(c.Node.ID) == nil {
			r.work[i] = c.FLOPs()
		}
	}
}

// FLOPs returns the arithmetic of a step at the sizes of the run. A loop counts as often as it may iterate.
func (c *Call) FLOPs() int64 { return c.Node.Op.FLOPs(c.Node.Attrs, typesOf(c.In), typesOf(c.Out)...) }

// typesOf returns the types of operands or results. Absent ones have the zero type.
func typesOf(list []tensor.Tensor) []ir.Type {
	types := make([]ir.Type, len(list))
	for k, t := range list {
		if t.DType == 0 { // absent
			continue
		}
		types[k].DType = t.DType
		for _, n := range t.Shape {
			types[k].Shape = append(types[k].Shape, ir.Static(int64(n)))
		}
	}
	return types
}
