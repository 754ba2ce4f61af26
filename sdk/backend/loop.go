package backend

import (
	"context"
	"errors"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/runner"
)

// NewLoop returns the kernel of the op loop. It runs the programs of a loop, its condition and its body, with the
// backend's other kernels. With it the compiler gives the backend a long while or scan as one step, so that file size
// and time per iteration do not depend on the number of iterations. Between two steps of an iteration the loop checks
// whether the run is cancelled. The error of a step in a loop names the iteration.
//
// The compiler unrolls a loop if it has a node that no other kernel takes, or a value of an element type that the
// backend does not have (Config.Types).
func NewLoop() Kernel {
	// makeLoops gives each step the function that runs it, because a Call does not have the loop's programs
	return Kernel{Op: op.LoopDef.Name, Takes: []string{"(any...)"}, Run: func(*Call) error {
		return errors.New("the kernel of loop runs only in programs that Load has loaded")
	}}
}

// loop is a step of an executable and the programs that it runs.
type loop struct {
	step     int
	programs []*executable // in the order of program.Loop.Programs
}

// findLoop finds the functions that run the steps of a loop's programs.
func (x *executable) findLoop(step int, p *program.Loop) error {
	l := &loop{step: step}
	for _, q := range p.Programs() {
		y := &executable{b: x.b, program: q}
		if err := y.find(); err != nil {
			return err
		}
		x.memory, x.own = max(x.memory, y.memory), max(x.own, y.own)
		l.programs = append(l.programs, y)
	}
	x.loops = append(x.loops, l)
	return nil
}

// makeLoops makes the runners of the programs of loops.
func (x *executable) makeLoops(load device.Load, scratch []byte) {
	for _, l := range x.loops {
		run := x.Runner.NewLoop(l.step, func(k int, arena []byte) *runner.Runner {
			y := l.programs[k]
			y.makeRunner(load, arena, scratch)
			return y.Runner
		})
		x.run[l.step] = func(*Call) error { return run.Run() }
	}
}

// setLoopWeights replaces weights that programs of loops read. They have the names of params of x's program.
func (x *executable) setLoopWeights(ctx context.Context, w device.NewWeights) error {
	for _, l := range x.loops {
		for _, y := range l.programs {
			if own := w.Of(y.program, x.program); len(own.Params) > 0 {
				if err := y.SetWeights(ctx, own); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
