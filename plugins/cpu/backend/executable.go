package backend

import (
	"context"
	"slices"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/runner"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
)

type executable struct {
	program   *program.Program
	arena     []byte
	wide      []byte // see call.wide
	free      []func()
	pool      *pool.Pool
	run       []func(*call) error // by step
	native    []bool              // by step; see call.native
	joints    []joint             // by step
	kernels   []device.Kernel
	memory    int64 // see Memory
	precision product.Precision

	runner  *runner.Runner
	calls   []call     // by step; their operands are those of the runner's calls
	readers [][]reader // see readersOf; nil until chooseBlocked first needs it
	loops   []*loopStep
	inner   bool // whether a loop runs the program
}

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
	x.free, x.arena, x.wide, x.runner, x.calls = nil, nil, nil, nil, nil
	return nil
}

// Run executes the steps in order.
func (x *executable) Run(ctx context.Context, r device.Run) (device.Stats, error) {
	return x.runner.Run(ctx, r)
}

// SetWeights replaces weights. Each step that reads one is prepared again, which drops its packed copy.
func (x *executable) SetWeights(_ context.Context, w device.NewWeights) error { return x.setWeights(w) }

func (x *executable) setWeights(w device.NewWeights) error {
	x.runner.SetWeights(w)
	reads := device.Reading(x.program, w.Params)
	for i, s := range x.program.Steps {
		n := x.program.Graph.Nodes[s.Node]
		if n.Op.Nested || !slices.ContainsFunc(n.In, func(in *ir.Node) bool { return in != nil && reads[in.ID] }) {
			continue
		}
		var err error
		if x.run[i], _, err = find(n); err != nil {
			return err
		}
	}
	return x.setLoopWeights(w)
}

// makeRunner makes the runner and the calls, when everything that they need is allocated.
func (x *executable) makeRunner(weights, arena []byte) {
	x.runner = runner.New(runner.Config{Program: x.program, Weights: weights, Arena: arena, Step: x.step,
		Bound: x.bound,
		Skip:  true})
	x.calls = make([]call, len(x.program.Steps))
	for i := range x.calls {
		c := x.runner.Call(i)
		x.calls[i] = call{pool: x.pool, precision: x.precision, node: c.Node, native: x.native[i], wide: x.wide,
			in: c.In, results: c.Out}
	}
	x.makeLoops(weights)
}

// bound updates the data that calls have stored for their last shapes and memory. Observers read values, so with an
// observer no value is blocked.
func (x *executable) bound(observed bool) {
	for i := range x.calls {
		c := &x.calls[i]
		c.out = c.results[0]
		c.inBlocked, c.outBlocked, c.dst, c.src = false, false, nil, nil
	}
	if !observed {
		x.chooseBlocked()
	}
	x.shareOrNot()
}

// step runs step i and, unless it is to run alone, the steps after it that run jointly with it; see runner.Config.
func (x *executable) step(i int, alone bool, needed []bool) (int, error) {
	if i == 0 && !x.inner {
		x.pool.Hold(true)
	}
	done := 0
	if !alone {
		done = x.runJoint(i, needed)
	}
	var err error
	if done == 0 {
		done, err = 1, x.run[i](&x.calls[i])
	}
	if i+done == len(x.calls) && !x.inner {
		x.pool.Hold(false)
	}
	return done, err
}
