package op

import (
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// GroupedMatMulAttrs are the attributes of grouped_matmul.
type GroupedMatMulAttrs struct {
	TransB bool `attr:"trans_b"` // each matrix of w is [N,K]: how checkpoints store linear layers
}

// GroupedMatMulDef multiplies each row by the matrix of its group, as in a mixture of experts.
var GroupedMatMulDef = ir.Define(ir.Def[GroupedMatMulAttrs]{
	Name: "grouped_matmul",
	Doc: "Takes x [M,K], w [E,K,N] ([E,N,K] if trans_b) and idx [M] (i32, i64 or u32). Row m of the result is x[m] . w[idx[m]], [M,N]. " +
		"w may be f16 or bf16 while x is f32. An index outside 0 to E-1 is a run error.",
	Operands: "x, w, idx",
	Checked:  []ir.Checked{{Operand: 2, Safe: 0}},
	Infer: func(s ir.Sig[GroupedMatMulAttrs]) (ir.Type, error) {
		x, w, idx := s.In[0], s.In[1], s.In[2]
		if err := weightDType(x, w); err != nil {
			return ir.Type{}, err
		}
		if err := isIndex("index", idx); err != nil {
			return ir.Type{}, err
		}
		if x.Rank() != 2 || w.Rank() != 3 || idx.Rank() != 1 {
			return ir.Type{}, fmt.Errorf("operands are %v, %v and %v; want x [M,K], w of rank 3 and index [M]", x, w,
				idx)
		}
		if d, e := idx.Shape[0], x.Shape[0]; d != e {
			return ir.Type{}, ir.Differ(d, e, "x is %v and index %v; want an index for each row", x, idx)
		}
		k, n := w.Shape[1], w.Shape[2]
		if s.Attrs.TransB {
			k, n = n, k
		}
		if d := x.Shape[1]; d != k {
			return ir.Type{}, ir.Differ(d, k, "x is %v and w %v (trans_b=%v); want equal sizes to sum over", x, w,
				s.Attrs.TransB)
		}
		return ir.Type{DType: x.DType, Shape: ir.Shape{x.Shape[0], n}}, nil
	},
	Eval: func(a GroupedMatMulAttrs, in []*tensor.Array, out *tensor.Array) error {
		x, w := in[0], in[1]
		k, n, groups := x.Shape[1], out.Shape[1], w.Shape[0]
		byK, byN := n, 1 // strides of a matrix
		if a.TransB {
			byK, byN = 1, k
		}
		for m, e := range in[2].Ints {
			if e < 0 || e >= int64(groups) {
				return fmt.Errorf("index %d at position %d is out of range 0 to %d", e, m, groups-1)
			}
			row, matrix := x.Floats[m*k:(m+1)*k], w.Floats[int(e)*k*n:]
			for j := range n {
				var sum float64
				for l, v := range row {
					sum += v * matrix[l*byK+j*byN]
				}
				out.Floats[m*n+j] = sum
			}
		}
		return nil
	},
	FLOPs: func(_ GroupedMatMulAttrs, in []ir.Type, out ir.Type) int64 {
		return 2 * numel(out) * in[0].Shape[1].Const
	},
	Tol: func(_ GroupedMatMulAttrs, in []ir.Type, out ir.Type) ir.Tolerance {
		return summed(out.DType, in[0].Shape[1].Const)
	},
	Cases: func() []ir.Case[GroupedMatMulAttrs] {
		c := func(transB bool, x, w, idx ir.Type) ir.Case[GroupedMatMulAttrs] {
			return ir.Case[GroupedMatMulAttrs]{Attrs: GroupedMatMulAttrs{transB}, In: []ir.Type{x, w, idx},
				Fill: []ir.Range{{Lo: -2, Hi: 2}, {Lo: -2, Hi: 2}, {Lo: 0, Hi: float64(w.Shape[0].Const - 1)}}}
		}
		return []ir.Case[GroupedMatMulAttrs]{
			c(false, f32(1, 1), f32(1, 1, 1), i32(1)), c(false, f32(7, 5), f32(3, 5, 4), i32(7)),
			c(true, f32(7, 5), f32(3, 4, 5), i64(7)), c(false, f32(0, 5), f32(3, 5, 4), u32(0)),
			c(true, f32(40, 33), f32(4, 65, 33), i32(40)), c(false, f32(40, 33), f32(4, 33, 65), i32(40)),
			c(true, f32(1, 64), f32(8, 33, 64), i32(1)), c(false, f32(3, 0), f32(2, 0, 4), i32(3)),
			c(false, f32(3, 4), f32(2, 4, 0), i32(3)), c(true, f32(9, 16), bf16(3, 5, 16), i32(9)),
			c(false, f32(9, 16), f16(3, 16, 5), i32(9)),
			c(true, f16(5, 8), f16(2, 3, 8), i32(5)), c(false, bf16(5, 8), bf16(2, 8, 3), i32(5)),
			c(true, f64(5, 8), f64(2, 3, 8), i32(5)),
		}
	},
})

// The lowering copies the matrix for each row. It is correct but slow; targets should have a kernel.
var _ = ir.Lower(GroupedMatMulDef, func(_ *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	x, w := in[0], Gather(in[1], in[2], 0)
	rows := Reshape(x, ir.Shape{x.Type.Shape[0], ir.Static(1), x.Type.Shape[1]})
	return Reshape(MatMul(rows, w, MatMulAttrs{TransB: n.Attrs.(GroupedMatMulAttrs).TransB}), n.Type.Shape)
})

// GroupedMatMul adds the product of each row of x with the matrix of w that idx selects. Packed weights need TransB.
func GroupedMatMul(x, w, idx *ir.Node, a GroupedMatMulAttrs) *ir.Node {
	if w.Type.DType.IsPacked() && a.TransB {
		return DequantGroupedMatMul(x, w, idx, ActivationsF32)
	}
	return x.Graph.Add(GroupedMatMulDef, a, x, w, idx)
}

// dw of a group is the product of its rows. The rows of other groups count as zeros, so this takes the operations of dx
// times the number of groups. Weights of experts are usually not trained.
var _ = gradient(GroupedMatMulDef, func(n *ir.Node, a GroupedMatMulAttrs, dy *ir.Node) []*ir.Node {
	x, w, idx := n.In[0], n.In[1], n.In[2]
	dx := GroupedMatMul(dy, w, idx, GroupedMatMulAttrs{TransB: !a.TransB})
	groups := ir.Shape{w.Type.Shape[0], ir.Static(1), ir.Static(1)}
	group := Iota(n.Graph, 0, ir.Type{DType: idx.Type.DType, Shape: groups})
	member := Eq(group, Reshape(idx, ir.Shape{idx.Type.Shape[0], ir.Static(1)}))
	own := Where(member, x, number(0, x)) // [E,M,K]
	var dw *ir.Node
	if a.TransB {
		dw = MatMul(dy, own, MatMulAttrs{TransA: true})
	} else {
		dw = MatMul(own, dy, MatMulAttrs{TransA: true})
	}
	return []*ir.Node{dx, castTo(dw, w.Type.DType), nil}
})
