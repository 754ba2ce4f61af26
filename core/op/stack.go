package op

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// StackAttrs are the attributes of stack.
type StackAttrs struct {
	Axis int `attr:"axis"` // axis of the result
}

// StackDef joins tensors along a new axis. It is a block: a concat of views.
var StackDef = ir.Define(ir.Def[StackAttrs]{
	Name:     "stack",
	Doc:      "The operands, all of one type, one after another along a new axis of the result, 0 to their rank.",
	Block:    true,
	Operands: "x...",
	Infer: func(s ir.Sig[StackAttrs]) (ir.Type, error) {
		first, axis := s.In[0], s.Attrs.Axis
		if axis < 0 || axis > first.Rank() {
			return ir.Type{}, fmt.Errorf("axis is %d; want 0 to %d, the rank of %v", axis, first.Rank(), first)
		}
		for _, x := range s.In[1:] {
			if !x.Equal(first) {
				return ir.Type{}, ir.TypesDiffer(x, first, "operands are %v and %v; want one type", first, x)
			}
		}
		return ir.Type{DType: first.DType,
			Shape: slices.Insert(slices.Clone(first.Shape), axis, ir.Static(int64(len(s.In))))}, nil
	},
	Eval: func(a StackAttrs, in []*tensor.Array, out *tensor.Array) error {
		inner := tensor.Numel(out.Shape[a.Axis+1:])
		for o := range tensor.Numel(out.Shape[:a.Axis]) {
			for k, x := range in {
				copyRange(out, (o*len(in)+k)*inner, x, o*inner, inner)
			}
		}
		return nil
	},
	FLOPs: noFLOPs[StackAttrs],
	Tol:   exact[StackAttrs],
	Cases: func() []ir.Case[StackAttrs] {
		c := func(axis int, in ...ir.Type) ir.Case[StackAttrs] {
			return ir.Case[StackAttrs]{Attrs: StackAttrs{axis}, In: in}
		}
		cases := []ir.Case[StackAttrs]{
			c(0, f32(), f32()), c(0, f32(3)), c(1, f32(3), f32(3), f32(3)), c(1, f32(2, 5), f32(2, 5)),
			c(2, f32(2, 0), f32(2, 0)),
		}
		for _, d := range elementTypes() {
			cases = append(cases, c(1, ir.TypeOf(d, 2, 3), ir.TypeOf(d, 2, 3)))
		}
		return cases
	},
})

var _ = ir.Lower(StackDef, func(_ *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	axis, parts := n.Attrs.(StackAttrs).Axis, make([]*ir.Node, len(in))
	for k, x := range in {
		parts[k] = Reshape(x, slices.Insert(slices.Clone(x.Type.Shape), axis, ir.Static(1)))
	}
	return Concat(axis, parts...)
})

// Stack adds the operands joined along a new axis. It may be counted from the end: -1 is the last axis of the result.
func Stack(axis int, in ...*ir.Node) *ir.Node {
	if axis < 0 {
		axis += in[0].Type.Rank() + 1
	}
	return in[0].Graph.Add(StackDef, StackAttrs{axis}, in...)
}
