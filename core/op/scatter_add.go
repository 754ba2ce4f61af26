package op

import (
	"fmt"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// ScatterAddDef adds rows to the rows of a tensor of zeros that indices select.
var ScatterAddDef = ir.Define(ir.Def[NoAttrs]{
	Name: "scatter_add",
	Doc: "Takes updates [n, ...] and idx [n] (i32, i64 or u32). The result starts as zeros of the declared " +
		"type [m, ...]; row i of updates is added to its row idx[i], in the order of i, so that the result is " +
		"the same in every run. An index outside 0 to m-1 is a run error. Integers wrap. PyTorch's index_add " +
		"on zeros. For every row of the result all indices are examined, so the op is for lists of " +
		"thousands, such as the tokens of a mixture of experts, and not of millions.",
	Operands: "updates, idx", Declared: true,
	Checked: []ir.Checked{{Operand: 1, Safe: 0}},
	Infer: func(s ir.Sig[NoAttrs]) (ir.Type, error) {
		x, idx, out := s.In[0], s.In[1], s.Declared
		if err := isIndex("index", idx); err != nil {
			return ir.Type{}, err
		}
		if x.Rank() == 0 || x.DType == dtype.Bool || idx.Rank() != 1 {
			return ir.Type{}, fmt.Errorf("updates are %v and index %v; want numbers [n, ...] and [n]", x, idx)
		}
		if idx.Shape[0] != x.Shape[0] {
			return ir.Type{},
				ir.Differ(idx.Shape[0], x.Shape[0], "updates are %v and index %v; want an index for each row", x, idx)
		}
		if out.DType != x.DType || out.Rank() != x.Rank() {
			return ir.Type{}, fmt.Errorf("declared type is %v; want the element type and rank of the updates, %v", out,
				x)
		}
		for i, d := range x.Shape[1:] {
			if e := out.Shape[i+1]; d != e {
				return ir.Type{},
					ir.Differ(d, e, "declared type is %v; want the sizes of the updates, %v, but on axis 0", out, x)
			}
		}
		return out, nil
	},
	Eval: func(_ NoAttrs, in []*tensor.Array, out *tensor.Array) error {
		x, inner, m := in[0], tensor.Numel(out.Shape[1:]), out.Shape[0]
		for i, row := range in[1].Ints {
			if row < 0 || row >= int64(m) {
				return fmt.Errorf("index %d at position %d is out of range 0 to %d", row, i, m-1)
			}
			for k := range inner {
				if at := int(row)*inner + k; out.Floats != nil {
					out.Floats[at] += x.Floats[i*inner+k]
				} else {
					out.Ints[at] += x.Ints[i*inner+k]
				}
			}
		}
		return nil
	},
	FLOPs: func(_ NoAttrs, in []ir.Type, _ ir.Type) int64 { return numel(in[0]) },
	Tol: func(_ NoAttrs, in []ir.Type, out ir.Type) ir.Tolerance {
		return summed(out.DType, in[1].Shape[0].Const)
	},
	Cases: func() []ir.Case[NoAttrs] {
		c := func(x, idx, out ir.Type) ir.Case[NoAttrs] {
			fill := ir.Range{Lo: -2, Hi: 2}
			if !x.DType.IsFloat() {
				fill = ir.Range{Lo: 0, Hi: 3}
			}
			return ir.Case[NoAttrs]{In: []ir.Type{x, idx}, Out: out,
				Fill: []ir.Range{fill, {Lo: 0, Hi: float64(out.Shape[0].Const - 1)}}}
		}
		cases := []ir.Case[NoAttrs]{
			c(f32(7), i32(7), f32(3)), c(f32(1), i64(1), f32(1)), c(f32(0, 3), i32(0), f32(4, 3)),
			c(f32(5, 0), u32(5), f32(2, 0)), c(f32(9, 3), i32(9), f32(4, 3)),
			c(f32(70, 5, 3), i64(70), f32(6, 5, 3)), c(f32(33, 65), i32(33), f32(40, 65)),
		}
		for _, d := range dtype.All() {
			if d != dtype.Bool {
				cases = append(cases, c(ir.TypeOf(d, 6, 3), i32(6), ir.TypeOf(d, 4, 3)))
			}
		}
		return cases
	},
})

// ScatterAdd returns a tensor with the given number of rows. Row k is the sum of the rows i of updates for which idx[i]
// is k.
func ScatterAdd(updates, idx *ir.Node, rows ir.Dim) *ir.Node {
	out := ir.Type{DType: updates.Type.DType, Shape: append(ir.Shape{}, updates.Type.Shape...)}
	if out.Rank() > 0 {
		out.Shape[0] = rows
	}
	return updates.Graph.AddDeclared(ScatterAddDef, NoAttrs{}, out, updates, idx)
}

var _ = gradient(ScatterAddDef, func(n *ir.Node, _ NoAttrs, dy *ir.Node) []*ir.Node {
	return []*ir.Node{Gather(dy, n.In[1], 0)}
})
