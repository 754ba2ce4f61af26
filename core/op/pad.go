package op

import (
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// PadAttrs are the attributes of pad. Before and After have one number per axis.
type PadAttrs struct {
	Before []int   `attr:"before"`
	After  []int   `attr:"after"`
	Value  float64 `attr:"value"`
}

// PadDef surrounds a tensor with a constant.
var PadDef = ir.Define(ir.Def[PadAttrs]{
	Name:     "pad",
	Doc:      "x with before[i] and after[i] elements of the number value added at the ends of axis i. Counts are not negative.",
	Operands: "x",
	Infer: func(s ir.Sig[PadAttrs]) (ir.Type, error) {
		a, x := s.Attrs, s.In[0]
		if len(a.Before) != x.Rank() || len(a.After) != x.Rank() {
			return ir.Type{}, fmt.Errorf("before %v and after %v; want one number for each axis of %v", a.Before,
				a.After, x)
		}
		if err := checkValue(a.Value, x.DType); err != nil {
			return ir.Type{}, err
		}
		out := make(ir.Shape, x.Rank())
		for i, d := range x.Shape {
			if err := checkSize(fmt.Sprintf("before[%d]", i), a.Before[i], 0); err != nil {
				return ir.Type{}, err
			}
			if err := checkSize(fmt.Sprintf("after[%d]", i), a.After[i], 0); err != nil {
				return ir.Type{}, err
			}
			out[i], _ = d.Add(ir.Static(int64(a.Before[i]) + int64(a.After[i])))
		}
		return ir.Type{DType: x.DType, Shape: out}, nil
	},
	Eval: func(a PadAttrs, in []*tensor.Array, out *tensor.Array) error {
		out.Fill(a.Value)
		to, start := tensor.Strides(out.Shape), 0
		for i, b := range a.Before {
			start += b * to[i]
		}
		tensor.Walk(in[0].Shape, [][]int{to}, func(i int, p []int) { take(out, start+p[0], in[0], i) })
		return nil
	},
	FLOPs: noFLOPs[PadAttrs],
	Tol:   exact[PadAttrs],
	Cases: func() []ir.Case[PadAttrs] {
		c := func(t ir.Type, v float64, before, after []int) ir.Case[PadAttrs] {
			return ir.Case[PadAttrs]{Attrs: PadAttrs{before, after, v}, In: []ir.Type{t}}
		}
		cases := []ir.Case[PadAttrs]{
			c(f32(), 0, nil, nil), c(f32(5), 0.5, []int{1}, []int{2}), c(f32(0), 0, []int{2}, []int{1}),
			c(f32(3, 4), 0, []int{0, 0}, []int{0, 0}),
			c(f32(3, 4), -1, []int{0, 2}, []int{1, 0}), c(f32(1, 5, 6, 3), 0, []int{0, 0, 0, 0}, []int{0, 3, 2, 0}),
		}
		for _, d := range elementTypes() {
			cases = append(cases, c(ir.TypeOf(d, 3, 5), 3, []int{1, 0}, []int{0, 2}))
		}
		return cases
	},
})

// Pad adds before[i] and after[i] elements with the given value at the ends of axis i.
func Pad(x *ir.Node, before, after []int, value float64) *ir.Node {
	return x.Graph.Add(PadDef, PadAttrs{before, after, value}, x)
}

var _ = ir.Lower(PadDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	a, x := n.Attrs.(PadAttrs), in[0]
	for axis := range x.Type.Shape {
		parts := []*ir.Node{}
		block := func(size int) {
			if size > 0 {
				shape := append(ir.Shape{}, x.Type.Shape...)
				shape[axis] = ir.Static(int64(size))
				parts = append(parts, Expand(number(a.Value, x), shape))
			}
		}
		block(a.Before[axis])
		parts = append(parts, x)
		block(a.After[axis])
		if len(parts) > 1 {
			x = Concat(axis, parts...)
		}
	}
	return x
})

var _ = gradient(PadDef, func(n *ir.Node, a PadAttrs, dy *ir.Node) []*ir.Node {
	for axis, d := range n.In[0].Type.Shape {
		if a.Before[axis] != 0 || a.After[axis] != 0 {
			dy = cut(dy, axis, ir.Static(int64(a.Before[axis])), d)
		}
	}
	return []*ir.Node{dy}
})
