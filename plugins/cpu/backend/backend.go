// Package backend runs programs on the CPU. It walks the steps of a program and calls the kernel registered for each
// step's op. Each file registers the kernels of one family of ops; there is no switch over ops.
//
// It imports core and plugins/cpu/kernels, never format, plugins/rpc or the compiler, so tests can run it in their own
// process.
package backend

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	_ "github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/runner"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
)

// Version is the version of the backend.
const Version = "0.1.0"

// kernel says how to run one op.
type kernel struct {
	op string
	// takes is the rule for the nodes that the kernel runs, in the language of package target and without "run" and the
	// op's name. The op's definition runs all other nodes.
	takes string
	also  string // a second rule, or empty
	run   func(c *call) error
	// prepare replaces run. It is called for each node when a program is loaded and returns the function that runs the
	// node.
	prepare func(n *ir.Node) func(c *call) error
	// joins is set if the op can be a product that runs jointly with others; see joint.go. ok is false if the node is
	// not such a product.
	joins func(n *ir.Node) (s jointStep, ok bool)
	// scratch returns how much memory the kernel needs beside its operands, at the upper bounds of the node's symbolic
	// sizes. Nil means that the need does not grow with the sizes.
	scratch func(p *pool.Pool, n *ir.Node, precision product.Precision) pool.Size
	// takesBlocked reports whether operand 0 of a call may have the blocked layout, makesBlocked whether its result
	// may. Nil means no.
	takesBlocked, makesBlocked func(c *call) bool
}

// call is one step with its operands and results, which are dense and row-major.
type call struct {
	pool *pool.Pool
	node *ir.Node
	// native is set if a kernel runs the step, false if the op's definition does.
	native  bool
	in      []tensor.Tensor // as node.In; see has
	results []tensor.Tensor // one or several
	out     tensor.Tensor   // the first result
	// memory for operands and results widened to float64 or int64, for definitions; all calls share it
	wide []byte

	precision product.Precision // that the host requested for matrix products and attention

	inBlocked, outBlocked bool // operand 0 or the result has the blocked layout; see chooseBlocked

	// of a cast: result and operand as slices of their element types; nil before the first run at these sizes
	dst, src any
}

// A product with fewer than fewRows rows is computed in f32 whatever precision the host requested. It spends its time
// on reading the weights, so bfloat16 saves nothing. In the models so far, such products are the heads that rank
// answers, where rounding shows.
const fewRows = 128

// forRows returns the precision of a product with n rows.
func (c *call) forRows(n int) product.Precision {
	if n < fewRows {
		return product.Float32
	}
	return c.precision
}

// has reports whether the step has operand k, an index in the op's declaration.
func (c *call) has(k int) bool { return c.node.In[k] != nil }

var registry = map[string]kernel{}

// register binds a kernel to an op, once per op. It returns a value so that package variables can call it.
func register(k kernel) struct{} {
	if _, ok := ir.Find(k.op); !ok || registry[k.op].op != "" {
		panic("BUG: cpu: kernel for " + k.op + ": no such op, or the op already has a kernel")
	}
	registry[k.op] = k
	for _, takes := range []string{k.takes, k.also} {
		if takes != "" {
			rules = append(rules, target.MustRule("run "+k.op+takes))
		}
	}
	return struct{}{}
}

// find returns the function that runs a node. native is true if it is a kernel, false if it is the op's definition.
func find(n *ir.Node) (run func(*call) error, native bool, err error) {
	how, why := Description().Takes(n)
	switch k := registry[n.Op.Name]; {
	case how == target.No:
		return nil, false, diag.New(device.ErrUnsupported, n.OpName(), "%s: the cpu backend cannot run it: %s",
			n.Label(), why)
	case how == target.Reference:
		return reference(n), false, nil
	case k.prepare != nil:
		return k.prepare(n), true, nil
	default:
		return k.run, true, nil
	}
}

// Every processor supports both precisions. A processor without instructions for bfloat16 rounds the operands and
// multiplies in f32.
var precisions = []string{product.Float32.String(), product.BFloat16.String()}

// rowBounds: up to 8 rows of products and 16 queries have kernels of their own, which depend on the number of rows. At
// bf16, products of fewer than fewRows rows are computed in f32, too, which is not counted here, because runs at f32
// would have to keep to it.
var rowBounds = &device.RowBounds{Products: []int{1, 2, 3, 4, 5, 6, 7, 8}, Queries: []int{16}}

// Backend is the cpu backend.
type Backend struct{}

// Info describes the backend and the processor.
func (Backend) Info(context.Context) (device.Info, error) {
	threads := "1 thread"
	if n := runtime.GOMAXPROCS(0); n > 1 {
		threads = fmt.Sprintf("%d threads", n)
	}
	about := append(slices.Clone(features()), threads)
	return device.Info{
		Name: "cpu", Version: Version, Target: Description(), Levels: levelsHere(),
		Devices: []device.Device{
			{ID: "0", Name: processorName(), Type: "cpu", Memory: physicalMemory(), Features: about}},
		Precisions: precisions, SetsWeights: true, RowBounds: rowBounds,
	}, nil
}

// Load prepares a program: it finds the kernels and allocates the arena.
func (b Backend) Load(ctx context.Context, l device.Load) (device.Executable, error) {
	if l.Device != "" && l.Device != "0" {
		return nil, diag.New(device.ErrUnavailable, "cpu", "device %q does not exist; the only device is 0", l.Device)
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
	precision, _ := product.ParsePrecision(l.Precision) // empty means f32
	pool, err := pool.New(l.Threads)
	if err != nil {
		return nil, err
	}
	x := &executable{program: l.Program, pool: pool, precision: precision}
	if err := x.prepare(); err != nil {
		x.Close()
		return nil, err
	}
	x.makeRunner(l.Weights, x.arena)
	return x, nil
}

// need is the memory that steps need in addition to their operands.
type need struct {
	scratch   pool.Size
	wide, own int64 // of definitions; see ir.Node.EvalMemory
}

// prepare finds the function that runs each step, and allocates the arena and the scratch memory. The operating system
// backs this with pages only when they are touched, so the host can still compare Memory with its limit before the
// first run.
func (x *executable) prepare() error {
	var n need
	if err := x.findAll(&n); err != nil {
		return err
	}
	x.memory = n.scratch.Bytes(x.pool) + n.wide + n.own + n.own/4 // see ScratchSize.Bytes
	var err error
	if x.arena, err = x.allocate(x.program.ArenaSize); err != nil {
		return diag.New(device.ErrMemory, "cpu", "arena of %d bytes: %w", x.program.ArenaSize, err)
	}
	if x.wide, err = x.allocate(n.wide); err == nil {
		err = x.pool.Reserve(n.scratch, func(n int64) ([]float32, error) {
			b, err := x.allocate(4 * n)
			return tensor.View[float32](b), err
		})
	}
	if err != nil {
		return diag.New(device.ErrMemory, "cpu", "%d bytes of scratch memory: %w", x.memory, err)
	}
	return nil
}

// findAll finds the function that runs each step, also in loops, and adds up the memory that they need.
func (x *executable) findAll(sum *need) error {
	x.native = make([]bool, len(x.program.Steps))
	for i, s := range x.program.Steps {
		n := x.program.Graph.Nodes[s.Node]
		run, isNative, err := find(n)
		if err != nil {
			return err
		}
		x.run = append(x.run, run)
		x.native[i] = isNative
		if k := registry[n.Op.Name]; !isNative {
			arrays, most := n.EvalMemory()
			sum.wide, sum.own = max(sum.wide, arrays), max(sum.own, most)
		} else if k.scratch != nil {
			sum.scratch = sum.scratch.With(k.scratch(x.pool, n, x.precision))
		}
		if x.program.Loop(n.ID) != nil {
			if err := x.findLoop(i, sum); err != nil {
				return err
			}
		}
	}
	sum.scratch = sum.scratch.With(x.join())
	x.kernels = runner.Kernels(x.program, x.native)
	return nil
}
