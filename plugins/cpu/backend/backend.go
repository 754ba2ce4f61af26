// Package backend runs programs on the processor: it walks the steps of a program and runs each by the kernel that is
// registered for its op. One file binds one family of ops to package kernels; there is no switch over ops.
//
// It imports core and plugins/cpu/kernels, never format, plugins/rpc or the compiler, so that it can be tested in process.
package backend

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	_ "github.com/rlx-go/rlx/core/op" // the ops that programs name
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cpu/kernels"
)

// Version of the backend.
const Version = "0.1.0"

// kernel runs one op.
type kernel struct {
	op string
	// takes says which nodes the kernel runs: what follows the op's name in a rule of package target. The op's definition
	// runs all others.
	takes string
	also  string // another rule, or empty
	run   func(c *call) error
	// prepare is called in place of run when a program is loaded. It returns the function that runs one node.
	prepare func(n *ir.Node) func(c *call) error
	// scratch is the size of the memory it computes in beside its operands, at the upper bounds of the node's sizes. Nil means that
	// nothing grows with them.
	scratch func(p *kernels.Pool, n *ir.Node, precision kernels.Precision) kernels.ScratchSize
	// takesBlocked reports whether operand 0 of a call may have the blocked layout, makesBlocked whether its result may; nil means no.
	takesBlocked, makesBlocked func(c *call) bool
}

// call is one step: operands and results, dense and row-major.
type call struct {
	pool *kernels.Pool
	node *ir.Node
	// native is set if a kernel runs the step, and not the op's definition.
	native bool
	in     []tensor.Tensor
	out    tensor.Tensor   // the result; the first of several
	outs   []tensor.Tensor // all results of an op that has several, otherwise nil
	wide   []byte          // memory for operands and results in the form that definitions take

	precision kernels.Precision // of products

	inBlocked, outBlocked bool // of operand 0, of the result; see chooseBlocked

	dst, src any // the result and the operand of a cast; nil before its first run at these sizes
}

// fewRows is the number of rows below which a product stays f32 whatever precision the host requested: its time goes into
// reading the weights, so narrow operands save nothing. In the models so far these products are the heads that rank the
// answers, where rounding is visible.
const fewRows = 128

// forRows is the precision of a product with so many rows.
func (c *call) forRows(n int) kernels.Precision {
	if n < fewRows {
		return kernels.Float32
	}
	return c.precision
}

var registry = map[string]kernel{}

// register binds a kernel to an op. It is called from package variables, once per op.
func register(k kernel) struct{} {
	if _, ok := ir.Find(k.op); !ok || registry[k.op].op != "" {
		panic("BUG: cpu: kernel for " + k.op + ", which is no op or has a kernel already")
	}
	registry[k.op] = k
	for _, takes := range []string{k.takes, k.also} {
		if takes != "" {
			rules = append(rules, target.MustRule("run "+k.op+takes))
		}
	}
	return struct{}{}
}

// results are all results of the step, also where there is one.
func (c *call) results() []tensor.Tensor {
	if c.outs != nil {
		return c.outs
	}
	return []tensor.Tensor{c.out}
}

// find chooses what runs a node.
func find(n *ir.Node) (run func(*call) error, native bool, err error) {
	how, why := Description().Takes(n)
	switch k := registry[n.Op.Name]; {
	case how == target.No:
		return nil, false, diag.New(device.ErrUnsupported, n.Op.Name, "%s: the cpu backend cannot run it: %s", n.Label(), why)
	case how == target.Reference:
		return reference(n), false, nil
	case k.prepare != nil:
		return k.prepare(n), true, nil
	default:
		return k.run, true, nil
	}
}

// precisions are the same on every processor: one without instructions for bfloat16 rounds the operands.
var precisions = []string{kernels.Float32.String(), kernels.BFloat16.String()}

// Backend is the cpu backend.
type Backend struct{}

// Info describes the processor.
func (Backend) Info(context.Context) (device.Info, error) {
	threads := "1 thread"
	if n := runtime.GOMAXPROCS(0); n > 1 {
		threads = fmt.Sprintf("%d threads", n)
	}
	about := append(slices.Clone(features()), threads)
	return device.Info{
		Name: "cpu", Version: Version, Target: Description(), Levels: levelsHere(),
		Devices:    []device.Device{{ID: "0", Name: processorName(), Type: "cpu", Memory: physicalMemory(), Features: about}},
		Precisions: precisions,
	}, nil
}

// Load prepares a program: it finds the kernels and allocates the arena.
func (b Backend) Load(ctx context.Context, l device.Load) (device.Executable, error) {
	if l.Device != "" && l.Device != "0" {
		return nil, diag.New(device.ErrUnavailable, "cpu", "no device %q; there is one, 0", l.Device)
	}
	info, err := b.Info(ctx)
	if err == nil {
		err = info.CheckLevel([]*program.Program{l.Program})
	}
	if err == nil {
		err = info.CheckPrecision(l.Precision)
	}
	if err != nil {
		return nil, err
	}
	precision, _ := kernels.ParsePrecision(l.Precision) // f32 where it is empty
	pool, err := kernels.NewPool(l.Threads)
	if err != nil {
		return nil, err
	}
	x := &executable{p: l.Program, binder: program.NewBinder(l.Program), weights: l.Weights, pool: pool, precision: precision, native: make([]bool, len(l.Program.Steps))}
	x.inputs, x.outputs = ends(l.Program)
	if err := x.prepare(); err != nil {
		x.Close()
		return nil, err
	}
	return x, nil
}

// prepare finds what runs each step, and allocates the arena and the scratch memory. The operating system takes pages only
// when they are touched, so the host can compare Memory with its limit before a run.
func (x *executable) prepare() error {
	native := map[string]bool{}
	var scratch kernels.ScratchSize
	var wide, own int64
	for i, s := range x.p.Steps {
		n := x.p.Graph.Nodes[s.Node]
		run, isNative, err := find(n)
		if err != nil {
			return err
		}
		x.run = append(x.run, run)
		x.operands += len(n.In) + len(n.Values())
		x.native[i] = isNative
		if was, seen := native[n.Op.Name]; !seen || was {
			native[n.Op.Name] = isNative
		}
		if k := registry[n.Op.Name]; !isNative {
			arrays, most := n.EvalMemory()
			wide, own = max(wide, arrays), max(own, most)
		} else if k.scratch != nil {
			scratch = scratch.With(k.scratch(x.pool, n, x.precision))
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(native), strings.Compare) {
		x.kernels = append(x.kernels, device.Kernel{Op: name, Native: native[name]})
	}
	x.memory = scratch.Bytes(x.pool) + wide + own + own/4 // see ScratchSize.Bytes
	var err error
	if x.arena, err = x.allocate(x.p.ArenaSize); err != nil {
		return diag.New(device.ErrMemory, "cpu", "arena of %d bytes: %w", x.p.ArenaSize, err)
	}
	if x.wide, err = x.allocate(wide); err == nil {
		err = x.pool.Reserve(scratch, func(n int64) ([]float32, error) {
			b, err := x.allocate(4 * n)
			return tensor.View[float32](b), err
		})
	}
	if err != nil {
		return diag.New(device.ErrMemory, "cpu", "%d bytes of scratch memory: %w", x.memory, err)
	}
	return nil
}
