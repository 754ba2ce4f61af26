package op

import (
	"fmt"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// DequantGroupedMatMulAttrs are the attributes of dequant_grouped_matmul.
type DequantGroupedMatMulAttrs struct {
	Activations string `attr:"activations"` // ActivationsF32 or ActivationsQ8
}

// DequantGroupedMatMulDef defines grouped_matmul with packed weights.
var DequantGroupedMatMulDef = ir.Define(ir.Def[DequantGroupedMatMulAttrs]{
	Name: "dequant_grouped_matmul", Packed: true,
	Doc: "Takes x (f32[M,K]), w [E,N,K/32] or [E,N,K/256] of a packed type, and idx [M] (i32, i64 or u32). Row m of the result is x[m] . w[idx[m]]^T, f32[M,N]. " +
		"An index outside 0 to E-1 is a run error. " + activationsDoc,
	Operands: "x, w, idx",
	Checked:  []ir.Checked{{Operand: 2, Safe: 0}},
	Infer: func(s ir.Sig[DequantGroupedMatMulAttrs]) (ir.Type, error) {
		x, w, idx := s.In[0], s.In[1], s.In[2]
		if err := checkActivations(s.Attrs.Activations); err != nil {
			return ir.Type{}, err
		}
		if err := isIndex("index", idx); err != nil {
			return ir.Type{}, err
		}
		k, err := packedDepth("w", w)
		if err != nil {
			return ir.Type{}, err
		}
		if x.DType != dtype.F32 || x.Rank() != 2 || w.Rank() != 3 || idx.Rank() != 1 {
			return ir.Type{}, fmt.Errorf("operands are %v, %v and %v; want x f32[M,K], w of rank 3 and index [M]", x, w,
				idx)
		}
		if d, e := idx.Shape[0], x.Shape[0]; d != e {
			return ir.Type{}, ir.Differ(d, e, "x is %v and index %v; want an index for each row", x, idx)
		}
		if d := x.Shape[1]; d != k {
			return ir.Type{}, ir.Differ(d, k, "x is %v and w %v, of rows of %v; want equal sizes to sum over", x, w, k)
		}
		return ir.Type{DType: x.DType, Shape: ir.Shape{x.Shape[0], w.Shape[1]}}, nil
	},
	Eval: func(a DequantGroupedMatMulAttrs, in []*tensor.Array, out *tensor.Array) error {
		k, n, groups := in[0].Shape[1], out.Shape[1], in[1].Shape[0]
		x, weights, buf := rounded8(in[0], k, a.Activations), make([]float64, k), make([]float32, k)
		for m, e := range in[2].Ints {
			if e < 0 || e >= int64(groups) {
				return fmt.Errorf("index %d at position %d is out of range 0 to %d", e, m, groups-1)
			}
			for j := range n {
				packedRow(weights, buf, in[1], int(e)*n+j)
				out.Floats[m*n+j] = dot(x[m*k:(m+1)*k], weights, k)
			}
		}
		return nil
	},
	Memory: func(s ir.Sig[DequantGroupedMatMulAttrs], _ ir.Type) int64 {
		return dequantMemory(s.Syms, s.In[0], s.Attrs.Activations)
	},
	FLOPs: func(_ DequantGroupedMatMulAttrs, in []ir.Type, out ir.Type) int64 {
		return 2 * numel(out) * in[0].Shape[1].Const
	},
	Tol: func(_ DequantGroupedMatMulAttrs, in []ir.Type, out ir.Type) ir.Tolerance {
		return summed(out.DType, in[0].Shape[1].Const)
	},
	Cases: func() []ir.Case[DequantGroupedMatMulAttrs] {
		c := func(activations string, x, w, idx ir.Type) ir.Case[DequantGroupedMatMulAttrs] {
			return ir.Case[DequantGroupedMatMulAttrs]{Attrs: DequantGroupedMatMulAttrs{activations},
				In:   []ir.Type{x, w, idx},
				Fill: []ir.Range{{Lo: -2, Hi: 2}, {}, {Lo: 0, Hi: float64(w.Shape[0].Const - 1)}}}
		}
		return []ir.Case[DequantGroupedMatMulAttrs]{
			c(ActivationsF32, f32(7, 64), ir.TypeOf(dtype.Q8_0, 3, 5, 2), i32(7)),
			c(ActivationsQ8, f32(7, 64), ir.TypeOf(dtype.Q4_0, 3, 5, 2), i64(7)),
			c(ActivationsF32, f32(1, 256), ir.TypeOf(dtype.Q4_K, 8, 17, 1), u32(1)),
			c(ActivationsQ8, f32(2, 512), ir.TypeOf(dtype.Q6_K, 4, 9, 2), i32(2)),
			c(ActivationsF32, f32(0, 64), ir.TypeOf(dtype.Q8_0, 3, 5, 2), i32(0)),
			c(ActivationsF32, f32(40, 96), ir.TypeOf(dtype.Q4_0, 4, 33, 3), i32(40)),
			c(ActivationsF32, f32(3, 0), ir.TypeOf(dtype.Q5_1, 2, 4, 0), i32(3)),
			c(ActivationsF32, f32(9, 256), ir.TypeOf(dtype.Q2_K, 2, 6, 1), i32(9)),
		}
	},
})

// DequantGroupedMatMul adds the product of each row of x with the matrix of w that idx selects.
func DequantGroupedMatMul(x, w, idx *ir.Node, activations string) *ir.Node {
	return x.Graph.Add(DequantGroupedMatMulDef, DequantGroupedMatMulAttrs{activations}, x, w, idx)
}

// Only x has a gradient: dy times the weights, which are decoded first, as the product of each with the unit matrix.
// Rounding the activations counts as the identity.
var _ = gradient(DequantGroupedMatMulDef, func(n *ir.Node, a DequantGroupedMatMulAttrs, dy *ir.Node) []*ir.Node {
	g, x, w, idx := n.Graph, n.In[0], n.In[1], n.In[2]
	groups, size, k := w.Type.Shape[0], w.Type.Shape[1], x.Type.Shape[1]
	every, _ := groups.Mul(k)
	units := Reshape(Expand(unitMatrix(g, k), ir.Shape{groups, k, k}), ir.Shape{every, k})
	group := Iota(g, 0, ir.Type{DType: dtype.I32, Shape: ir.Shape{groups, k}})
	columns := DequantGroupedMatMul(units, w, Reshape(group, ir.Shape{every}), ActivationsF32) // [E K, N]
	weights := Reshape(columns, ir.Shape{groups, k, size})
	return []*ir.Node{GroupedMatMul(dy, weights, idx, GroupedMatMulAttrs{TransB: true})}
})
