package op

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// GatherAttrs are the attributes of gather.
type GatherAttrs struct {
	Axis int `attr:"axis"`
}

// GatherDef selects slices of a table by index.
var GatherDef = ir.Define(ir.Def[GatherAttrs]{
	Name: "gather",
	Doc: "Takes table and idx. The result is the slices of table along an axis that idx (i32, i64 or u32) selects; its shape is table[..axis] ++ idx ++ table[axis+1..]. " +
		"An index outside 0 to n-1 is a run error; negative ones do not count from the end.",
	Operands: "table, idx",
	Checked:  []ir.Checked{{Operand: 1, Safe: 0}},
	Infer: func(s ir.Sig[GatherAttrs]) (ir.Type, error) {
		table, idx := s.In[0], s.In[1]
		if err := checkAxis(s.Attrs.Axis, table.Rank()); err != nil {
			return ir.Type{}, err
		}
		if err := isIndex("index", idx); err != nil {
			return ir.Type{}, err
		}
		shape := slices.Concat(table.Shape[:s.Attrs.Axis], idx.Shape, table.Shape[s.Attrs.Axis+1:])
		return ir.Type{DType: table.DType, Shape: shape}, nil
	},
	Eval: func(a GatherAttrs, in []*tensor.Array, out *tensor.Array) error {
		table, idx := in[0], in[1].Ints
		n, inner, i := int64(table.Shape[a.Axis]), tensor.Numel(table.Shape[a.Axis+1:]), 0
		for o := range tensor.Numel(table.Shape[:a.Axis]) {
			for k, x := range idx {
				if x < 0 || x >= n {
					return fmt.Errorf("index %d at position %d is out of range 0 to %d", x, k, n-1)
				}
				copyRange(out, i, table, (o*int(n)+int(x))*inner, inner)
				i += inner
			}
		}
		return nil
	},
	FLOPs: noFLOPs[GatherAttrs],
	Tol:   exact[GatherAttrs],
	Cases: func() []ir.Case[GatherAttrs] {
		c := func(axis int, table, idx ir.Type) ir.Case[GatherAttrs] {
			top := float64(table.Shape[axis].Const - 1)
			return ir.Case[GatherAttrs]{Attrs: GatherAttrs{axis}, In: []ir.Type{table, idx},
				Fill: []ir.Range{{Lo: -2, Hi: 2}, {Lo: 0, Hi: top}}}
		}
		cases := []ir.Case[GatherAttrs]{
			c(0, f32(5), i32()), c(0, f32(5, 3), i64(2, 4)), c(1, f32(3, 7), i32(4)), c(1, f32(2, 5, 3), i32(2, 2)),
			c(0, f32(5, 3), i32(0)),
			c(0, f32(5, 0), u32(3)), c(0, f32(9, 33), i32(17)),
		}
		for _, d := range elementTypes() {
			cases = append(cases, c(0, ir.TypeOf(d, 4, 3), i32(5)))
		}
		for i := range cases { // integer tables hold small numbers
			if !cases[i].In[0].DType.IsFloat() {
				cases[i].Fill[0] = ir.Range{Lo: 0, Hi: 3}
			}
		}
		return cases
	},
})

// Gather adds the slices of table along an axis that idx selects. For a packed table it adds rows as f32, and the axis
// must be 0.
func Gather(table, idx *ir.Node, axis int) *ir.Node {
	if table.Type.DType.IsPacked() && axis == 0 {
		return DequantRows(table, idx)
	}
	return table.Graph.Add(GatherDef, GatherAttrs{fromEnd(axis, table)}, table, idx)
}

// The gradient of table is a scatter_add of dy to zeros, with the axis first.
var _ = ir.Gradient(GatherDef, func(n *ir.Node, dy []*ir.Node) ([]*ir.Node, error) {
	axis, table, idx, d := n.Attrs.(GatherAttrs).Axis, n.In[0].Type.Shape, n.In[1], widened(dy[0])
	outer, ok1 := product(table[:axis])
	inner, ok2 := product(table[axis+1:])
	count, ok3 := product(idx.Type.Shape)
	if !ok1 || !ok2 || !ok3 {
		return nil, fmt.Errorf("table is %v and idx %v, whose sizes have no product", n.In[0].Type, idx.Type)
	}
	d = Transpose(Reshape(d, ir.Shape{outer, count, inner}), 1, 0, 2)
	d = ScatterAdd(d, Reshape(idx, ir.Shape{count}), table[axis])
	return narrowed([]*ir.Node{Reshape(Transpose(d, 1, 0, 2), table)}, n.In), nil
})

// product returns the number of elements of a shape. ok is false if no dim is equal to it.
func product(s ir.Shape) (n ir.Dim, ok bool) {
	n, ok = ir.Static(1), true
	for i := 0; ok && i < len(s); i++ {
		n, ok = n.Mul(s[i])
	}
	return n, ok
}
