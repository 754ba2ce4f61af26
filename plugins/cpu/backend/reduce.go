package backend

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/reduce"
)

// Registers reduce_sum, reduce_mean, reduce_max, reduce_min, reduce_prod, any and all.
func init() {
	for _, name := range []string{"sum", "mean", "max", "min", "prod"} {
		r, _ := reduce.Parse(name)
		takes := "(any)"
		if r == reduce.Mean {
			takes = "(f32|f64|f16|bf16)"
		}
		register(
			kernel{op: "reduce_" + name, takes: takes, scratch: reduceScratch,
				prepare: func(n *ir.Node) func(*call) error { return reductions[n.Type.DType](r) }})
	}
	for _, name := range []string{"any", "all"} {
		register(kernel{op: name, takes: "(bool)", scratch: reduceScratch, run: func(c *call) error {
			reduce.Bools(c.pool, name == "all", c.out.Data, c.in[0].Data, c.in[0].Shape, reducedAxes(c))
			return nil
		}})
	}
}

func reduceScratch(_ *pool.Pool, n *ir.Node, _ product.Precision) pool.Size {
	return reduce.Scratch(tensor.Numel(n.Graph.Syms.Largest(n.In[0].Type.Shape)))
}

func reducedAxes(c *call) []int { return c.node.Attrs.(op.ReduceAttrs).Axes }

// reductions holds the kernels of the reduce_ ops by element type.
var reductions = map[dtype.DType]func(r reduce.Op) func(*call) error{
	dtype.F32: reduceFloats, dtype.F16: reduceFloats, dtype.BF16: reduceFloats, dtype.F64: reduceNumbers[float64],
	dtype.I8: reduceNumbers[int8], dtype.I16: reduceNumbers[int16], dtype.I32: reduceNumbers[int32],
	dtype.I64: reduceNumbers[int64],
	dtype.U8:  reduceNumbers[uint8], dtype.U32: reduceNumbers[uint32],
}

func reduceFloats(r reduce.Op) func(*call) error {
	return func(c *call) error {
		reduce.Floats(c.pool, r, weights(c.out), weights(c.in[0]), c.in[0].Shape, reducedAxes(c))
		return nil
	}
}

func reduceNumbers[T interface {
	tensor.Element
	float64 | elementwise.Integer
}](r reduce.Op) func(*call) error {
	return func(c *call) error {
		reduce.Reduce(c.pool, r, view[T](c.out), view[T](c.in[0]), c.in[0].Shape, reducedAxes(c))
		return nil
	}
}
