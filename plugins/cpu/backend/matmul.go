package backend

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cpu/kernels"
)

var (
	_ = register(kernel{op: "matmul", can: takesF32, run: func(c *call) error {
		matmul(c, op.FusedMatMulAttrs{TransA: c.node.Attrs.(op.MatMulAttrs).TransA, TransB: c.node.Attrs.(op.MatMulAttrs).TransB})
		return nil
	}})
	_ = register(kernel{op: "fused_matmul", can: takesF32, run: func(c *call) error {
		matmul(c, c.node.Attrs.(op.FusedMatMulAttrs))
		return nil
	}})
)

// takesF32 is for kernels that compute f32 from f32; a second operand of f16 or bf16 is a weight, which they widen.
func takesF32(n *ir.Node) bool {
	for i, x := range n.In {
		if x.Type.DType != dtype.F32 && (i != 1 || x.Type.DType != dtype.F16 && x.Type.DType != dtype.BF16) {
			return false
		}
	}
	return n.Type.DType == dtype.F32
}

func f32(t tensor.Tensor) []float32 { return tensor.View[float32](t.Data) }

// optional is operand i, or nil where i is out of range.
func optional(c *call, i int) []float32 {
	if i < 0 || i >= len(c.in) {
		return nil
	}
	return f32(c.in[i])
}

func weights(t tensor.Tensor) kernels.Weights {
	switch t.DType {
	case dtype.F16:
		return kernels.F16(tensor.View[uint16](t.Data))
	case dtype.BF16:
		return kernels.BF16(tensor.View[uint16](t.Data))
	}
	return kernels.F32(f32(t))
}

func matmul(c *call, a op.FusedMatMulAttrs) {
	x, w, out := c.in[0], c.in[1], c.out
	r := len(out.Shape)
	act, _ := kernels.ParseAct(a.Act)
	g := kernels.GemmArgs{
		M: out.Shape[r-2], N: out.Shape[r-1], K: x.Shape[len(x.Shape)-1],
		A: f32(x), TransA: a.TransA, B: weights(w), TransB: a.TransB, C: f32(out),
		Bias: optional(c, a.Bias()), Act: act, Residual: optional(c, a.Residual()),
		Precision: c.forRows(tensor.Numel(out.Shape[:r-1])),
	}
	if a.TransA {
		g.K = x.Shape[len(x.Shape)-2]
	}
	g.LDA, g.LDB = x.Shape[len(x.Shape)-1], w.Shape[len(w.Shape)-1]
	g.LDC, g.LDR = g.N, g.N
	if tensor.Numel(w.Shape) == g.K*g.N && !a.TransA {
		// One weight for all: the leading axes are more rows.
		g.M = tensor.Numel(out.Shape) / max(1, g.N)
		if g.N == 0 {
			g.M = 0
		}
		kernels.Gemm(c.pool, &g)
		return
	}
	batches(x.Shape, w.Shape, out.Shape, func(n, xi, wi, oi, xs, ws int) {
		b := g
		b.Batch, b.StrideA, b.StrideB, b.StrideC, b.StrideR = n, xs*g.M*g.K, ws*g.K*g.N, g.M*g.N, g.M*g.N
		b.A, b.C = g.A[xi*g.M*g.K:], g.C[oi*g.M*g.N:]
		b.B = weights(tensor.Tensor{DType: w.DType, Data: w.Data[wi*g.K*g.N*w.DType.Size():]})
		if g.Residual != nil {
			b.Residual = g.Residual[oi*g.M*g.N:]
		}
		kernels.Gemm(c.pool, &b)
	})
}

// batches walks the leading axes of a broadcast product. f is called for runs of n matrices; within a run the matrices of
// an operand are xs or ws apart (0: the same one). Indices count matrices.
func batches(x, w, out []int, f func(n, xi, wi, oi, xs, ws int)) {
	lead := out[:len(out)-2]
	xs, ws := leadStrides(x, len(lead)), leadStrides(w, len(lead))
	last := len(lead) - 1
	if last < 0 {
		f(1, 0, 0, 0, 0, 0)
		return
	}
	index := make([]int, last)
	for o := 0; o < tensor.Numel(lead); o += lead[last] {
		xi, wi := 0, 0
		for i, v := range index {
			xi, wi = xi+v*xs[i], wi+v*ws[i]
		}
		f(lead[last], xi, wi, o, xs[last], ws[last])
		for i := last - 1; i >= 0; i-- {
			if index[i]++; index[i] < lead[i] {
				break
			}
			index[i] = 0
		}
	}
}

// leadStrides are the strides, in matrices, of an operand's leading axes, aligned to rank axes; 0 where it broadcasts.
func leadStrides(shape []int, rank int) []int {
	s, n := make([]int, rank), 1
	for i := len(shape) - 3; i >= 0; i-- {
		if shape[i] != 1 {
			s[rank-(len(shape)-2)+i] = n
		}
		n *= shape[i]
	}
	return s
}
