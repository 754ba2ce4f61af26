package backend

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/conv"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/quad"
)

var (
	_ = register(
		kernel{op: "grouped_matmul", takes: "(f32, f32|f16|bf16, i32|i64|u32)", scratch: groupedScratch,
			prepare: func(*ir.Node) func(*call) error {
				kept := &product.Grouped{}
				return func(c *call) error {
					g, groups := groupedArgs(c.node, c.in[0].Shape, c.in[1].Shape)
					g.A, g.B, g.C, g.Precision = f32(c.in[0]), weights(c.in[1]), f32(c.out), c.forRows(g.M)
					return groupedMatMul(c, kept, g, groups, c.in[2])
				}
			}})
	_ = register(
		kernel{op: "qmatmul", takes: "(i8|u8, i8|u8, f32, i32)", scratch: qmatmulScratch,
			prepare: func(n *ir.Node) func(*call) error {
				kept := &quad.Kept{Fixed: param(n.In[1]) != nil}
				if n.Type.DType == dtype.I8 {
					return qmatmul[int8](kept)
				}
				return qmatmul[uint8](kept)
			}})
	_ = register(
		kernel{op: "qconv2d", takes: "(i8|u8, i8|u8, f32, i32)", scratch: qconvScratch,
			prepare: func(n *ir.Node) func(*call) error {
				kept := &conv.Kept{Fixed: param(n.In[1]) != nil}
				if n.Type.DType == dtype.I8 {
					return qconv[int8](kept)
				}
				return qconv[uint8](kept)
			}})
)

// groupedMatMul multiplies each row of g.A by the matrix that idx selects for it.
func groupedMatMul(c *call, kept *product.Grouped, g product.GemmArgs, groups int, idx tensor.Tensor) error {
	switch idx.DType {
	case dtype.I32:
		return product.GroupedMatMul(kept, c.pool, g, groups, view[int32](idx))
	case dtype.I64:
		return product.GroupedMatMul(kept, c.pool, g, groups, view[int64](idx))
	}
	return product.GroupedMatMul(kept, c.pool, g, groups, view[uint32](idx))
}

// groupedArgs returns the sizes of a product of x [rows, k] and w [groups, k, n], or [groups, n, k] with trans_b.
func groupedArgs(n *ir.Node, x, w []int) (g product.GemmArgs, groups int) {
	g = product.GemmArgs{M: x[0], K: x[1], N: w[2], LDA: x[1], LDB: w[2],
		TransB: n.Attrs.(op.GroupedMatMulAttrs).TransB}
	if g.TransB {
		g.N = w[1]
	}
	g.LDC = g.N
	return g, w[0]
}

func groupedScratch(p *pool.Pool, n *ir.Node, precision product.Precision) pool.Size {
	syms := n.Graph.Syms
	g, groups := groupedArgs(n, syms.Largest(n.In[0].Type.Shape), syms.Largest(n.In[1].Type.Shape))
	r := product.GroupedScratch(g.M, g.K, g.N, groups)
	for _, g.Precision = range []product.Precision{product.Float32, precision} {
		r = r.With(g.ScratchSize(p))
	}
	return r
}

func qmatmulScratch(p *pool.Pool, n *ir.Node, _ product.Precision) pool.Size {
	x, out := n.Graph.Syms.Largest(n.In[0].Type.Shape), n.Graph.Syms.Largest(n.Type.Shape)
	return quad.Scratch(p, out[len(out)-1], x[len(x)-1])
}

func qmatmul[T int8 | uint8](kept *quad.Kept) func(*call) error {
	return func(c *call) error {
		a, x := c.node.Attrs.(op.QMatMulAttrs), c.in[0]
		rows, n := rowsOf(c.out)
		q := quad.Gemm[T]{
			M: rows, N: n, K: x.Shape[len(x.Shape)-1], X: view[T](x), Dst: view[T](c.out), W: weights(c.in[1]),
			TransB: a.TransB, Mult: f32(c.in[2]),
			XZero: a.XZero, WZero: a.WZero, YZero: a.YZero, Keep: kept,
		}
		if c.has(op.QMatMulBias) {
			q.Bias = view[int32](c.in[op.QMatMulBias])
		}
		q.Multiply(c.pool)
		return nil
	}
}

func qconvScratch(p *pool.Pool, n *ir.Node, _ product.Precision) pool.Size {
	most := n.Graph.Syms.Largest
	g := convSizes(most(n.In[0].Type.Shape), most(n.In[1].Type.Shape), geometryOf(n.Attrs.(op.QConv2DAttrs).Geometry()),
		false)
	return g.QConvScratch(p)
}

func qconv[T int8 | uint8](kept *conv.Kept) func(*call) error {
	return func(c *call) error {
		a, x, w := c.node.Attrs.(op.QConv2DAttrs), c.in[0], c.in[1]
		q := conv.ConvolveIntegers[T]{
			Size: convSizes(x.Shape, w.Shape, geometryOf(a.Geometry()), false), X: view[T](x), Dst: view[T](c.out),
			W: w.Data, WSigned: w.DType == dtype.I8,
			Mult: f32(c.in[2]), XZero: a.XZero, WZero: a.WZero, YZero: a.YZero, Keep: kept,
		}
		if c.has(op.QMatMulBias) {
			q.Bias = view[int32](c.in[op.QMatMulBias])
		}
		q.Run(c.pool)
		return nil
	}
}
