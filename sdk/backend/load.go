package backend

import (
	"cmp"
	"context"
	"runtime"
	"slices"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/runner"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/core/tensor"
)

// Load finds a kernel for each step and allocates the arena and the scratch memory.
func (b *backend) Load(ctx context.Context, l device.Load) (device.Executable, error) {
	if err := b.checkDevice(l.Device); err != nil {
		return nil, err
	}
	if info, err := b.Info(ctx); err != nil {
		return nil, err
	} else if err := info.CheckPrecision(l.Precision); err != nil {
		return nil, err
	}
	if why := b.target.Lacks(l.Program.Graph); why != "" {
		return nil, diag.New(device.ErrUnsupported, "backend "+b.Name, "%s: %s", l.Program.Method, why)
	}
	x := &executable{b: b, program: l.Program}
	if err := x.find(); err != nil {
		return nil, err
	}
	x.makeRunner(l, tensor.AlignedBytes(int(l.Program.ArenaSize)), tensor.AlignedBytes(int(x.memory)))
	return x, nil
}

// find finds the functions that run the steps, also in loops.
func (x *executable) find() error {
	var native []bool // by step
	for i, s := range x.program.Steps {
		n := x.program.Graph.Nodes[s.Node]
		run, isNative, err := x.b.find(n)
		if err != nil {
			return err
		}
		x.run = append(x.run, run)
		native = append(native, isNative)
		scratch, own := x.b.scratch(n, isNative)
		if l := x.program.Loop(n.ID); l != nil {
			if err := x.findLoop(i, l); err != nil {
				return err
			}
		}
		x.memory, x.own = max(x.memory, scratch), max(x.own, own)
	}
	x.kernels = runner.Kernels(x.program, native)
	return nil
}

// makeRunner makes the runners of the program and of its loops. Their steps share the scratch memory.
func (x *executable) makeRunner(l device.Load, arena, scratch []byte) {
	x.Runner = runner.New(runner.Config{
		Program: x.program, Weights: l.Weights, Arena: arena,
		Step: func(i int, _ bool, _ []bool) (int, error) { return 1, x.run[i](&x.calls[i]) },
	})
	for i := range x.program.Steps {
		c := x.Runner.Call(i)
		x.calls = append(
			x.calls,
			Call{Node: c.Node, In: c.In, Out: c.Out, Scratch: scratch,
				Threads: cmp.Or(l.Threads, runtime.GOMAXPROCS(0))})
	}
	x.makeLoops(l, scratch)
}

// find returns the function that runs a node. native is true if it is a kernel, false if it is the op's definition.
func (b *backend) find(n *ir.Node) (run func(*Call) error, native bool, err error) {
	how, why := b.target.Takes(n)
	switch k := b.kernels[kernelOf(n)]; {
	case how == target.No:
		return nil, false, diag.New(device.ErrUnsupported, "backend "+b.Name, "%s: %s", n.Label(), why)
	case how == target.Reference:
		define := runner.Reference(n)
		return func(c *Call) error { return define(c.In, c.Out, c.Scratch) }, false, nil
	case k.Prepare != nil:
		if run, err = k.Prepare(n); err != nil {
			err = diag.New(device.ErrUnsupported, "backend "+b.Name, "%s: %s: %w", n.Label(), n.OpName(), err)
		}
		return run, true, err
	default:
		return k.Run, true, nil
	}
}

// scratch returns the bytes of Call.Scratch that a node needs, and those that its definition allocates in addition.
func (b *backend) scratch(n *ir.Node, native bool) (scratch, own int64) {
	if !native {
		return n.EvalMemory()
	}
	if f := b.kernels[kernelOf(n)].Scratch; f != nil {
		return f(n), 0
	}
	return 0, 0
}

// executable is a loaded program.
type executable struct {
	*runner.Runner
	b           *backend
	program     *program.Program
	loops       []*loop
	run         []func(*Call) error // by step
	calls       []Call              // by step
	kernels     []device.Kernel
	memory, own int64 // bytes of scratch memory, and of what definitions allocate
}

// SetWeights replaces weights. Kernels of steps that read one are prepared again.
func (x *executable) SetWeights(ctx context.Context, w device.NewWeights) error {
	x.Runner.SetWeights(w)
	reads := device.Reading(x.program, w.Params)
	for i := range x.run {
		n := x.calls[i].Node
		if x.program.Loop(n.ID) != nil {
			continue
		}
		if !slices.ContainsFunc(n.In, func(in *ir.Node) bool { return in != nil && reads[in.ID] }) {
			continue
		}
		var err error
		if x.run[i], _, err = x.b.find(n); err != nil {
			return err
		}
	}
	return x.setLoopWeights(ctx, w)
}

// Kernels reports which ops have a kernel.
func (x *executable) Kernels() []device.Kernel { return x.kernels }

// Memory returns an upper bound of the scratch memory, in bytes. A quarter of own is for garbage that definitions
// leave; see runner.Reference.
func (x *executable) Memory() int64 { return x.memory + x.own + x.own/4 }

// Close frees the memory.
func (x *executable) Close() error {
	*x = executable{}
	return nil
}
