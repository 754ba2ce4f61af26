package backend

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cpu/kernels"
)

// Registers reduce_sum, reduce_mean, reduce_max, reduce_min, reduce_prod, any and all.
func init() {
	for _, name := range []string{"sum", "mean", "max", "min", "prod"} {
		r, _ := kernels.ParseReduce(name)
		takes := "(any)"
		if r == kernels.Mean {
			takes = "(f32|f64|f16|bf16)"
		}
		register(
			kernel{op: "reduce_" + name, takes: takes, scratch: reduceScratch,
				prepare: func(n *ir.Node) func(*call) error { return reductions[n.Type.DType](r) }})
	}
	for _, name := range []string{"any", "all"} {
		register(kernel{op: name, takes: "(bool)", scratch: reduceScratch, run: func(c *call) error {
			kernels.ReduceBools(c.pool, name == "all", c.out.Data, c.in[0].Data, c.in[0].Shape, reducedAxes(c))
			return nil
		}})
	}
}

func reduceScratch(_ *kernels.Pool, n *ir.Node, _ kernels.Precision) kernels.ScratchSize {
	return kernels.ReduceScratch(tensor.Numel(n.Graph.Syms.Largest(n.In[0].Type.Shape)))
}

func reducedAxes(c *call) []int { return c.node.Attrs.(op.ReduceAttrs).Axes }

// reductions holds the kernels of the reduce_ ops by element type.
var reductions = map[dtype.DType]func(r kernels.ReduceOp) func(*call) error{
	dtype.F32: reduceFloats, dtype.F16: reduceFloats, dtype.BF16: reduceFloats, dtype.F64: reduce[float64],
	dtype.I8: reduce[int8], dtype.I16: reduce[int16], dtype.I32: reduce[int32], dtype.I64: reduce[int64],
	dtype.U8: reduce[uint8], dtype.U32: reduce[uint32],
}

func reduceFloats(r kernels.ReduceOp) func(*call) error {
	return func(c *call) error {
		kernels.ReduceFloats(c.pool, r, weights(c.out), weights(c.in[0]), c.in[0].Shape, reducedAxes(c))
		return nil
	}
}

func reduce[T interface {
	tensor.Element
	float64 | kernels.Integer
}](r kernels.ReduceOp) func(*call) error {
	return func(c *call) error {
		kernels.Reduce(c.pool, r, view[T](c.out), view[T](c.in[0]), c.in[0].Shape, reducedAxes(c))
		return nil
	}
}
