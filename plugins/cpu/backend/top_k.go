package backend

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cpu/kernels"
)

var (
	_ = register(
		kernel{op: "top_k", takes: "(any)", prepare: ranking,
			scratch: func(p *kernels.Pool, n *ir.Node, _ kernels.Precision) kernels.ScratchSize {
				shape := n.Graph.Syms.Largest(n.In[0].Type.Shape)
				return kernels.TopKScratch(p, shape[len(shape)-1], n.Attrs.(op.TopKAttrs).K)
			}})
	_ = register(
		kernel{op: "sort", takes: "(any)", prepare: ranking,
			scratch: func(p *kernels.Pool, n *ir.Node, _ kernels.Precision) kernels.ScratchSize {
				x := n.In[0].Type
				return kernels.SortScratch(p, n.Graph.Syms.Largest(x.Shape)[n.Attrs.(op.SortAttrs).Axis],
					x.DType.Size())
			}})
)

// ranking returns the kernel of a top_k or sort node.
func ranking(n *ir.Node) func(*call) error {
	switch d := n.In[0].Type.DType; d {
	case dtype.F32:
		return ranked(n, kernels.FloatOrder[float32]())
	case dtype.F64:
		return ranked(n, kernels.FloatOrder[float64]())
	case dtype.F16, dtype.BF16:
		return ranked(n, kernels.HalfOrder(d))
	case dtype.I8:
		return ranked(n, kernels.IntOrder[int8]())
	case dtype.I16:
		return ranked(n, kernels.IntOrder[int16]())
	case dtype.I32:
		return ranked(n, kernels.IntOrder[int32]())
	case dtype.I64:
		return ranked(n, kernels.IntOrder[int64]())
	case dtype.U8:
		return ranked(n, kernels.IntOrder[uint8]())
	case dtype.U32:
		return ranked(n, kernels.IntOrder[uint32]())
	}
	return nil
}

func ranked[T tensor.Element](n *ir.Node, by kernels.Order[T]) func(*call) error {
	if a, ok := n.Attrs.(op.SortAttrs); ok {
		return func(c *call) error {
			outer, n, inner := around(c.in[0].Shape, a.Axis)
			kernels.Sort(c.pool, view[T](c.results[0]), c.results[1].Data, c.results[1].DType, view[T](c.in[0]), outer,
				n, inner, a.Descending, by)
			return nil
		}
	}
	k := n.Attrs.(op.TopKAttrs).K
	return func(c *call) error {
		rows, n := rowsOf(c.in[0])
		kernels.TopK(c.pool, view[T](c.results[0]), c.results[1].Data, c.results[1].DType, view[T](c.in[0]), rows, n, k,
			by)
		return nil
	}
}
