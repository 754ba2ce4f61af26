package backend

import (
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
)

// matmulF64 runs a matrix product of f64. Its weights are not packed when the program is loaded.
func matmulF64(c *call) error {
	a, x, w, out := c.node.Attrs.(op.MatMulAttrs), c.in[0], c.in[1], c.out
	r := len(out.Shape)
	g := product.GemmF64Args{M: out.Shape[r-2], N: out.Shape[r-1], K: x.Shape[len(x.Shape)-1], TransA: a.TransA,
		TransB: a.TransB,
		LDA:    x.Shape[len(x.Shape)-1], LDB: w.Shape[len(w.Shape)-1]}
	if a.TransA {
		g.K = x.Shape[len(x.Shape)-2]
	}
	if g.M*g.N == 0 {
		return nil
	}
	batches(x.Shape, w.Shape, out.Shape, func(n, xi, wi, oi, xs, ws int) {
		b := g
		b.Batch, b.StrideA, b.StrideB, b.StrideC = n, xs*g.M*g.K, ws*g.K*g.N, g.M*g.N
		b.A, b.B, b.C = view[float64](x)[xi*g.M*g.K:], view[float64](w)[wi*g.K*g.N:], view[float64](out)[oi*g.M*g.N:]
		product.GemmF64(c.pool, b)
	})
	return nil
}
