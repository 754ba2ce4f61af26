package op

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// DequantMatMulBackwardDef defines the gradient of dequant_matmul with packed weights.
var DequantMatMulBackwardDef = ir.Define(ir.Def[NoAttrs]{
	Name: "dequant_matmul_backward", Packed: true,
	Doc: "The gradient of dequant_matmul with scheme \"packed\" (see there) with respect to x, f32[..,k], given " +
		"the gradient of its result, dy f32[..,n], and w, [n,k/32] or [n,k/256] of a packed type: dy . w. A " +
		"kernel need not decode all of w. Rounding the activations counts as the identity.",
	Operands: "dy, w",
	Infer: func(s ir.Sig[NoAttrs]) (ir.Type, error) {
		dy, w := s.In[0], s.In[1]
		if dy.DType != dtype.F32 || dy.Rank() == 0 {
			return ir.Type{}, fmt.Errorf("dy is %v; want f32 of rank 1 or more", dy)
		}
		k, err := packedDepth("w", w)
		switch {
		case err != nil:
			return ir.Type{}, err
		case w.Rank() != 2:
			return ir.Type{}, fmt.Errorf("w is %v; want rank 2", w)
		}
		lead, n := dy.Shape[:dy.Rank()-1], dy.Shape[dy.Rank()-1]
		if n != w.Shape[0] {
			return ir.Type{}, ir.Differ(n, w.Shape[0], "dy is %v and w %v; want equal sizes to sum over", dy, w)
		}
		return ir.Type{DType: dtype.F32, Shape: slices.Concat(lead, ir.Shape{k})}, nil
	},
	Eval: func(_ NoAttrs, in []*tensor.Array, out *tensor.Array) error {
		dy, k := in[0], out.Shape[len(out.Shape)-1]
		n := dy.Shape[len(dy.Shape)-1]
		row, buf := make([]float64, k), make([]float32, k)
		for j := range n {
			packedRow(row, buf, in[1], j)
			for m := range dy.Len() / n {
				for i, v := range row {
					out.Floats[m*k+i] += dy.Floats[m*n+j] * v
				}
			}
		}
		return nil
	},
	Memory: func(_ ir.Sig[NoAttrs], out ir.Type) int64 { return 12 * out.Shape[out.Rank()-1].Const },
	FLOPs: func(_ NoAttrs, in []ir.Type, out ir.Type) int64 {
		return 2 * numel(out) * in[0].Shape[in[0].Rank()-1].Const
	},
	Tol: func(_ NoAttrs, in []ir.Type, out ir.Type) ir.Tolerance {
		return summed(out.DType, in[0].Shape[in[0].Rank()-1].Const)
	},
	Cases: func() (cases []ir.Case[NoAttrs]) {
		c := func(in ...ir.Type) { cases = append(cases, ir.Case[NoAttrs]{In: in}) }
		for i, d := range dtype.Packed() { // one row, few and many
			blocks, n := int64(2), int64(13+5*(i%3))
			if d.Values() == 32 {
				blocks = 9
			}
			w := ir.TypeOf(d, n, blocks)
			c(f32(n), w)
			c(f32(2, int64(i%3+1), n), w)
			c(f32(33, n), w)
		}
		c(f32(0, 3), ir.TypeOf(dtype.Q4_0, 3, 2))
		c(f32(2, 3), ir.TypeOf(dtype.Q8_0, 3, 0))
		c(f32(2, 0), ir.TypeOf(dtype.Q4_K, 0, 1))
		c(f32(260, 70), ir.TypeOf(dtype.Q8_0, 70, 3)) // enough rows for tiles
		c(f32(257, 64), ir.TypeOf(dtype.Q4_K, 64, 1))
		return cases
	},
})

// DequantMatMulBackward adds the product of dy [..,n] and packed weights w [n,k/32] or [n,k/256].
func DequantMatMulBackward(dy, w *ir.Node) *ir.Node {
	return dy.Graph.Add(DequantMatMulBackwardDef, NoAttrs{}, dy, w)
}

// The weights are decoded first.
var _ = ir.Lower(DequantMatMulBackwardDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	dy, w := in[0], in[1]
	if dy.Type.Rank() == 1 {
		dy = Reshape(dy, ir.Shape{ir.Static(1), dy.Type.Shape[0]})
	}
	rows := DequantRows(w, Iota(g, 0, ir.Type{DType: dtype.I32, Shape: w.Type.Shape[:1]}))
	return Reshape(MatMul(dy, rows, MatMulAttrs{}), n.Type.Shape)
})

// The op is linear in dy.
var _ = gradient(DequantMatMulBackwardDef, func(n *ir.Node, _ NoAttrs, ddx *ir.Node) []*ir.Node {
	return []*ir.Node{DequantMatMul(ddx, n.In[1], ActivationsF32), ir.NoGradient}
})
