package backend

import (
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/runner"
)

// A loop is a step that runs programs of its own. Their steps are found and measured when the program that has the loop
// is loaded. They share its threads and scratch memory, and run in a region of its arena.
var _ = register(kernel{op: "loop", takes: "(any...)", prepare: func(*ir.Node) func(*call) error { return nil }})

// loopStep is a step of an executable and the programs that it runs.
type loopStep struct {
	step     int
	programs []*executable // in the order of program.Loop.Programs
}

// findLoop finds the functions that run the steps of the loop's programs.
func (x *executable) findLoop(step int, sum *need) error {
	l := &loopStep{step: step}
	for _, p := range x.program.Loop(x.program.Steps[step].Node).Programs() {
		y := &executable{program: p, pool: x.pool, precision: x.precision, inner: true}
		if err := y.findAll(sum); err != nil {
			return err
		}
		l.programs = append(l.programs, y)
	}
	x.loops = append(x.loops, l)
	return nil
}

// makeLoops makes the runners of the programs of loops, after those of the steps.
func (x *executable) makeLoops(weights []byte) {
	for _, l := range x.loops {
		run := x.runner.NewLoop(l.step, func(k int, arena []byte) *runner.Runner {
			y := l.programs[k]
			y.wide = x.wide
			y.makeRunner(weights, arena)
			return y.runner
		})
		x.run[l.step] = func(*call) error { return run.Run() }
	}
}

// setLoopWeights replaces weights that programs of loops read. They have the names of params of x's program.
func (x *executable) setLoopWeights(w device.NewWeights) error {
	for _, l := range x.loops {
		for _, y := range l.programs {
			if own := w.Of(y.program, x.program); len(own.Params) > 0 {
				if err := y.setWeights(own); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
