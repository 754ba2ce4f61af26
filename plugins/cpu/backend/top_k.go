package backend

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cpu/kernels"
)

var _ = register(kernel{op: "top_k", takes: "(any)", scratch: func(p *kernels.Pool, n *ir.Node, _ kernels.Precision) kernels.ScratchSize {
	return kernels.TopKScratch(p, n.Attrs.(op.TopKAttrs).K)
}, prepare: func(n *ir.Node) func(*call) error {
	switch d := n.In[0].Type.DType; d {
	case dtype.F32:
		return topK(n, kernels.FloatKeys[float32])
	case dtype.F64:
		return topK(n, kernels.FloatKeys[float64])
	case dtype.F16, dtype.BF16:
		return topK(n, kernels.HalfKeys(d))
	case dtype.I8:
		return topK(n, kernels.IntKeys[int8])
	case dtype.I16:
		return topK(n, kernels.IntKeys[int16])
	case dtype.I32:
		return topK(n, kernels.IntKeys[int32])
	case dtype.I64:
		return topK(n, kernels.IntKeys[int64])
	case dtype.U8:
		return topK(n, kernels.IntKeys[uint8])
	case dtype.U32:
		return topK(n, kernels.IntKeys[uint32])
	}
	return nil
}})

func topK[T tensor.Element](n *ir.Node, keys func(dst []uint64, src []T)) func(*call) error {
	k := n.Attrs.(op.TopKAttrs).K
	return func(c *call) error {
		rows, n := rowsOf(c.in[0])
		kernels.TopK(c.pool, view[T](c.outs[0]), c.outs[1].Data, c.outs[1].DType, view[T](c.in[0]), rows, n, k, keys)
		return nil
	}
}
