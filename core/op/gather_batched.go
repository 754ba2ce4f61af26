package op

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// GatherBatchedAttrs are the attributes of gather_batched.
type GatherBatchedAttrs struct {
	BatchDims int `attr:"batch_dims"` // axes that table and idx share, 1 or more
}

// GatherBatchedDef selects slices of each table of a batch by its own indices.
var GatherBatchedDef = ir.Define(ir.Def[GatherBatchedAttrs]{
	Name: "gather_batched",
	Doc: "Takes table and idx (i32, i64 or u32), whose first batch_dims axes are the same. For each position on those, selects slices of table along the next axis by idx: " +
		"the shape is idx ++ table[batch_dims+1..]. TensorFlow's gather with batch_dims. An index outside 0 to n-1 is a run error; negative ones do not count from the end.",
	Operands: "table, idx",
	Checked:  []ir.Checked{{Operand: 1, Safe: 0}},
	Infer: func(s ir.Sig[GatherBatchedAttrs]) (ir.Type, error) {
		table, idx, b := s.In[0], s.In[1], s.Attrs.BatchDims
		if b < 1 || b >= table.Rank() || b > idx.Rank() {
			return ir.Type{},
				fmt.Errorf("batch_dims is %d; want 1 to %d for a table %v and indices %v", b,
					min(table.Rank()-1, idx.Rank()), table, idx)
		}
		if err := isIndex("index", idx); err != nil {
			return ir.Type{}, err
		}
		for i, d := range idx.Shape[:b] {
			if d != table.Shape[i] {
				return ir.Type{}, ir.Differ(d, table.Shape[i], "table is %v and index %v; want the same first %d dims",
					table, idx, b)
			}
		}
		return ir.Type{DType: table.DType, Shape: slices.Concat(idx.Shape, table.Shape[b+1:])}, nil
	},
	Eval: func(a GatherBatchedAttrs, in []*tensor.Array, out *tensor.Array) error {
		table, idx, b := in[0], in[1], a.BatchDims
		n, inner, per := table.Shape[b], tensor.Numel(table.Shape[b+1:]), tensor.Numel(idx.Shape[b:])
		for k, x := range idx.Ints {
			if x < 0 || x >= int64(n) {
				return fmt.Errorf("index %d at position %d is out of range 0 to %d", x, k, n-1)
			}
			copyRange(out, k*inner, table, (k/per*n+int(x))*inner, inner)
		}
		return nil
	},
	FLOPs: noFLOPs[GatherBatchedAttrs],
	Tol:   exact[GatherBatchedAttrs],
	Cases: func() []ir.Case[GatherBatchedAttrs] {
		c := func(b int, table, idx ir.Type) ir.Case[GatherBatchedAttrs] {
			fill := ir.Range{Lo: -2, Hi: 2}
			if !table.DType.IsFloat() {
				fill = ir.Range{Lo: 0, Hi: 3}
			}
			return ir.Case[GatherBatchedAttrs]{Attrs: GatherBatchedAttrs{b}, In: []ir.Type{table, idx},
				Fill: []ir.Range{fill, {Lo: 0, Hi: float64(table.Shape[b].Const - 1)}}}
		}
		cases := []ir.Case[GatherBatchedAttrs]{
			c(1, f32(3, 5), i32(3)), c(1, f32(3, 5), i32(3, 1)), c(1, f32(2, 5, 3), i64(2, 4)),
			c(2, f32(2, 3, 4), u32(2, 3, 2, 2)), c(1, f32(1, 1), i32(1, 7)),
			c(1, f32(0, 5), i32(0, 2)), c(1, f32(3, 5), i32(3, 0)), c(1, f32(4, 9, 33), i32(4, 17)),
			c(1, f32(2, 5, 0), i32(2, 3)),
		}
		for _, d := range elementTypes() {
			cases = append(cases, c(1, ir.TypeOf(d, 2, 4, 3), i32(2, 5)))
		}
		return cases
	},
})

// GatherBatched adds slices of the tables in a batch, each picked by its own indices.
func GatherBatched(table, idx *ir.Node, batchDims int) *ir.Node {
	return table.Graph.Add(GatherBatchedDef, GatherBatchedAttrs{batchDims}, table, idx)
}

// The rows of all batches are added to one table, in which those of batch b begin at b times the size of the axis.
var _ = gradient(GatherBatchedDef, func(n *ir.Node, a GatherBatchedAttrs, dy *ir.Node) []*ir.Node {
	table, idx, g := n.In[0].Type, n.In[1], n.Graph
	batch, _ := table.Shape[:a.BatchDims].Numel()
	rest, _ := table.Shape[a.BatchDims+1:].Numel()
	perBatch, _ := idx.Type.Shape[a.BatchDims:].Numel()
	count, _ := idx.Type.Shape.Numel()
	all, _ := table.Shape[:a.BatchDims+1].Numel()
	flat := Reshape(Cast(idx, dtype.I64), ir.Shape{batch, perBatch})
	first := Iota(g, 0, ir.Type{DType: dtype.I64, Shape: ir.Shape{batch, ir.Static(1)}})
	flat = Reshape(Add(flat, Mul(first, sizeOf(g, table.Shape[a.BatchDims]))), ir.Shape{count})
	return []*ir.Node{Reshape(ScatterAdd(Reshape(dy, ir.Shape{count, rest}), flat, all), table.Shape)}
})
