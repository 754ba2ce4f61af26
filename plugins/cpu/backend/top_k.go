package backend

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/ranking"
)

var (
	_ = register(
		kernel{op: "top_k", takes: "(any)", prepare: rank,
			scratch: func(p *pool.Pool, n *ir.Node, _ product.Precision) pool.Size {
				shape := n.Graph.Syms.Largest(n.In[0].Type.Shape)
				return ranking.TopKScratch(p, shape[len(shape)-1], n.Attrs.(op.TopKAttrs).K)
			}})
	_ = register(
		kernel{op: "sort", takes: "(any)", prepare: rank,
			scratch: func(p *pool.Pool, n *ir.Node, _ product.Precision) pool.Size {
				x := n.In[0].Type
				return ranking.SortScratch(p, n.Graph.Syms.Largest(x.Shape)[n.Attrs.(op.SortAttrs).Axis],
					x.DType.Size())
			}})
)

// rank returns the kernel of a top_k or sort node.
func rank(n *ir.Node) func(*call) error {
	switch d := n.In[0].Type.DType; d {
	case dtype.F32:
		return ranked(n, ranking.FloatOrder[float32]())
	case dtype.F64:
		return ranked(n, ranking.FloatOrder[float64]())
	case dtype.F16, dtype.BF16:
		return ranked(n, ranking.HalfOrder(d))
	case dtype.I8:
		return ranked(n, ranking.IntOrder[int8]())
	case dtype.I16:
		return ranked(n, ranking.IntOrder[int16]())
	case dtype.I32:
		return ranked(n, ranking.IntOrder[int32]())
	case dtype.I64:
		return ranked(n, ranking.IntOrder[int64]())
	case dtype.U8:
		return ranked(n, ranking.IntOrder[uint8]())
	case dtype.U32:
		return ranked(n, ranking.IntOrder[uint32]())
	}
	return nil
}

func ranked[T tensor.Element](n *ir.Node, by ranking.Order[T]) func(*call) error {
	if a, ok := n.Attrs.(op.SortAttrs); ok {
		return func(c *call) error {
			outer, n, inner := around(c.in[0].Shape, a.Axis)
			ranking.Sort(c.pool, view[T](c.results[0]), c.results[1].Data, c.results[1].DType, view[T](c.in[0]), outer,
				n, inner, a.Descending, by)
			return nil
		}
	}
	k := n.Attrs.(op.TopKAttrs).K
	return func(c *call) error {
		rows, n := rowsOf(c.in[0])
		ranking.TopK(c.pool, view[T](c.results[0]), c.results[1].Data, c.results[1].DType, view[T](c.in[0]), rows, n, k,
			by)
		return nil
	}
}
