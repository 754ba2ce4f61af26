package op

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// WhereDef selects elements by a condition.
var WhereDef = ir.Define(ir.Def[NoAttrs]{
	Name: "where",
	Doc: "Takes cond, t and f. z = t where cond is not 0, and f elsewhere, with NumPy broadcast of all three. t and f have the same element type, cond any; NaN is " +
		"not 0. " +
		"It selects and never blends: NaN on the side that is not picked does not show.",
	Operands: "cond, t, f", Elementwise: true, InPlace: []int{1, 2},
	Unread: func(NoAttrs) []ir.Unread {
		return []ir.Unread{{Operand: 1, By: 0, Value: false}, {Operand: 2, By: 0, Value: true}}
	},
	AsI32: narrowInts, // not bool: the plainer form makes the condition a bool
	Infer: func(s ir.Sig[NoAttrs]) (ir.Type, error) {
		if err := sameDType(s.In[1:]); err != nil {
			return ir.Type{}, err
		}
		shape, err := broadcast(s.In[0].Shape, s.In[1].Shape, s.In[2].Shape)
		return ir.Type{DType: s.In[1].DType, Shape: shape}, err
	},
	Eval: func(_ NoAttrs, in []*tensor.Array, out *tensor.Array) error {
		at := make([][]int, 3)
		for k, x := range in {
			at[k] = strides(x.Shape, out.Shape)
		}
		tensor.Walk(out.Shape, at, func(i int, p []int) {
			k := 2
			if in[0].At(p[0]) != 0 {
				k = 1
			}
			if out.Floats != nil {
				out.Floats[i] = in[k].Floats[p[k]]
			} else {
				out.Ints[i] = in[k].Ints[p[k]]
			}
		})
		return nil
	},
	FLOPs: noFLOPs[NoAttrs],
	Tol:   exact[NoAttrs],
	Cases: func() []ir.Case[NoAttrs] {
		var cases []ir.Case[NoAttrs]
		for _, in := range [][]ir.Type{
			{bools(), f32(), f32()}, {bools(0), f32(0), f32(0)}, {bools(17), f32(17), f32(17)},
			{bools(3, 1), f32(5), f32()},
			{bools(), f32(3, 5), f32(3, 1)}, {bools(4, 257), f32(4, 257), f32()}, {bools(2, 3), i32(3), i32(2, 1)},
			{bools(9), bf16(9), bf16(9)}, {bools(9), i64(9), i64()}, {bools(9), bools(9), bools(9)},
			{f32(3, 5), f32(5), f32()},
			{i32(17), bf16(17), bf16()}, {f16(9), i64(9), i64(9)}, {i64(5), f32(3, 5), f32(3, 1)},
			{u8(19), f32(19), f32(19)}, {bf16(3, 1), f32(3, 5), f32(5)},
		} {
			cases = append(cases, ir.Case[NoAttrs]{In: in, Fill: []ir.Range{{Lo: 0, Hi: 1}}})
		}
		return cases
	},
})

// Where returns a node that computes t where cond is not 0, and f elsewhere.
func Where(cond, t, f *ir.Node) *ir.Node { return cond.Graph.Add(WhereDef, NoAttrs{}, cond, t, f) }

// The plainer form has a condition of type bool.
var _ = ir.Plainer(WhereDef, func(_ *ir.Graph, _ *ir.Node, in []*ir.Node) *ir.Node {
	if in[0].Type.DType == dtype.Bool {
		return nil
	}
	return Where(Cast(in[0], dtype.Bool), in[1], in[2])
})

// Each element's gradient goes to the operand that was selected.
var _ = gradient(WhereDef, func(n *ir.Node, _ NoAttrs, dy *ir.Node) []*ir.Node {
	cond, zero := n.In[0], number(0, dy)
	t, f := Where(cond, dy, zero), Where(cond, zero, dy)
	return []*ir.Node{nil, sumTo(t, n.In[1].Type.Shape), sumTo(f, n.In[2].Type.Shape)}
})
