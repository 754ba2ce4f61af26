// Package backend runs programs on the processor: it walks the steps of a program and hands each to the kernel that
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
	run   func(c *call) error
	// prepare, in place of run, makes what runs one node, once, when a program is loaded.
	prepare func(n *ir.Node) func(c *call) error
	// takesSquares reports whether operand 0 of a call may be in squares, makesSquares whether its result may; nil: no.
	takesSquares, makesSquares func(c *call) bool
}

// call is one step: operands and results, dense and row-major.
type call struct {
	pool *kernels.Pool
	node *ir.Node
	// native: a kernel runs it, not the definition.
	native bool
	in     []tensor.Tensor
	out    tensor.Tensor   // the result; the first of several
	outs   []tensor.Tensor // all results of an op that has several; nil of the others

	precision kernels.Precision // of products

	inSquares, outSquares bool // of operand 0, of the result; see chooseSquares

	dst, src any // the result and the operand of a cast; nil before its first run at these sizes
}

// fewRows is the number of rows below which a product stays f32 whatever precision was asked for: its time goes into
// reading the weights, so that narrow operands save nothing, and in the models at hand these are the heads that rank the
// answers, where a rounding shows.
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
	rules = append(rules, target.MustRule("run "+k.op+k.takes))
	return struct{}{}
}

// reference runs an op by its definition.
func reference(c *call) error {
	in := make([]*tensor.Array, len(c.in))
	for i, t := range c.in {
		in[i] = t.Array()
	}
	results := c.results()
	out := make([]*tensor.Array, len(results))
	for i, t := range results {
		out[i] = tensor.NewArray(t.DType, t.Shape...)
	}
	if err := c.node.Op.Eval(c.node.Attrs, in, out...); err != nil {
		return err
	}
	for i, t := range results {
		copy(t.Data, out[i].Tensor().Data)
	}
	return nil
}

// results are all results of the step, of an op with one too.
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
		return reference, false, nil
	case k.prepare != nil:
		return k.prepare(n), true, nil
	default:
		return k.run, true, nil
	}
}

// precisions are those of every processor: where it has no instructions for bfloat16, the operands are rounded.
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
	native := map[string]bool{}
	for i, s := range l.Program.Steps {
		n := l.Program.Graph.Nodes[s.Node]
		run, isNative, err := find(n)
		if err != nil {
			pool.Close()
			return nil, err
		}
		x.run = append(x.run, run)
		x.operands += len(n.In) + len(n.Values())
		x.native[i] = isNative
		if was, seen := native[n.Op.Name]; !seen || was {
			native[n.Op.Name] = isNative
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(native), strings.Compare) {
		x.kernels = append(x.kernels, device.Kernel{Op: name, Native: native[name]})
	}
	if x.arena, x.free, err = allocate(l.Program.ArenaSize); err != nil {
		pool.Close()
		return nil, diag.New(device.ErrMemory, "cpu", "arena of %d bytes: %w", l.Program.ArenaSize, err)
	}
	return x, nil
}
