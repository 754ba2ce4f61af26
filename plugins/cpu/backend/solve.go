package backend

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/solve"
)

var _ = register(kernel{op: "dense_solve", takes: "(f32|f64...)",
	scratch: func(_ *pool.Pool, n *ir.Node, _ product.Precision) pool.Size {
		_, size, k := systems(n.Graph.Syms.Largest(n.In[0].Type.Shape), n.Graph.Syms.Largest(n.In[1].Type.Shape))
		return solve.Scratch(size, k)
	},
	run: func(c *call) error {
		if tensor.Numel(c.out.Shape) == 0 {
			return nil
		}
		batch, n, k := systems(c.in[0].Shape, c.in[1].Shape)
		if c.out.DType == dtype.F32 {
			solve.Dense(c.pool, solve.Args[float32]{X: f32(c.out), A: f32(c.in[0]), B: f32(c.in[1]), Batch: batch, N: n,
				K: k})
			return nil
		}
		solve.Dense(c.pool, solve.Args[float64]{X: view[float64](c.out), A: view[float64](c.in[0]),
			B: view[float64](c.in[1]), Batch: batch, N: n, K: k})
		return nil
	}})

// systems returns the sizes of the operands of dense_solve: systems, equations and right sides of each.
func systems(a, b []int) (batch, n, k int) {
	rank := len(a)
	k = 1
	if len(b) == rank {
		k = b[rank-1]
	}
	return tensor.Numel(a[:rank-2]), a[rank-1], k
}
