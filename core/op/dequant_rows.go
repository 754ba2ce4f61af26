package op

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// DequantRowsDef selects rows of a packed table, as embeddings do.
var DequantRowsDef = ir.Define(ir.Def[NoAttrs]{
	Name: "dequant_rows", Packed: true,
	Doc:      "Rows of table ([n,k/32] or [n,k/256] of a packed type), picked by idx (i32, i64 or u32), as f32: the shape is idx ++ [k]. An index outside 0 to n-1 is a run error.",
	Operands: "table, idx",
	Checked:  []ir.Checked{{Operand: 1, Safe: 0}},
	Infer: func(s ir.Sig[NoAttrs]) (ir.Type, error) {
		table, idx := s.In[0], s.In[1]
		if err := isIndex("index", idx); err != nil {
			return ir.Type{}, err
		}
		k, err := packedDepth("table", table)
		if err == nil && table.Rank() != 2 {
			err = fmt.Errorf("table is %v; want rank 2", table)
		}
		return ir.Type{DType: dtype.F32, Shape: slices.Concat(idx.Shape, ir.Shape{k})}, err
	},
	Eval: func(_ NoAttrs, in []*tensor.Array, out *tensor.Array) error {
		table, k := in[0], out.Shape[len(out.Shape)-1]
		buf, n := make([]float32, k), int64(table.Shape[0])
		for m, x := range in[1].Ints {
			if x < 0 || x >= n {
				return fmt.Errorf("index %d at position %d is out of range 0 to %d", x, m, n-1)
			}
			packedRow(out.Floats[m*k:(m+1)*k], buf, table, int(x))
		}
		return nil
	},
	Memory: func(_ ir.Sig[NoAttrs], out ir.Type) int64 { return 4 * out.Shape[out.Rank()-1].Const },
	FLOPs:  noFLOPs[NoAttrs],
	Tol:    exact[NoAttrs],
	Cases: func() []ir.Case[NoAttrs] {
		c := func(table, idx ir.Type) ir.Case[NoAttrs] {
			return ir.Case[NoAttrs]{In: []ir.Type{table, idx},
				Fill: []ir.Range{{}, {Lo: 0, Hi: float64(table.Shape[0].Const - 1)}}}
		}
		cases := []ir.Case[NoAttrs]{c(ir.TypeOf(dtype.Q8_0, 5, 2), i64(2, 3)), c(ir.TypeOf(dtype.Q4_0, 9, 1), u32()),
			c(ir.TypeOf(dtype.Q6_K, 3, 2), i32(0)), c(ir.TypeOf(dtype.Q4_0, 4, 0), i32(3))}
		for _, d := range dtype.Packed() {
			cases = append(cases, c(ir.TypeOf(d, 5, 3), i32(7)))
		}
		return cases
	},
})

// DequantRows adds the rows of a packed table that idx selects, as f32.
func DequantRows(table, idx *ir.Node) *ir.Node {
	return idx.Graph.Add(DequantRowsDef, NoAttrs{}, table, idx)
}
