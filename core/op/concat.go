package op

import (
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// ConcatAttrs are the attributes of concat.
type ConcatAttrs struct {
	Axis int `attr:"axis"`
}

// ConcatDef joins tensors along an axis.
var ConcatDef = ir.Define(ir.Def[ConcatAttrs]{
	Name:     "concat",
	Doc:      "The operands one after another along an axis; element types and all other dims are equal.",
	Operands: "x...",
	Infer: func(s ir.Sig[ConcatAttrs]) (ir.Type, error) {
		axis, first := s.Attrs.Axis, s.In[0]
		if err := checkAxis(axis, first.Rank()); err != nil {
			return ir.Type{}, err
		}
		if err := sameDType(s.In); err != nil {
			return ir.Type{}, err
		}
		out := append(ir.Shape{}, first.Shape...)
		for _, t := range s.In[1:] {
			if t.Rank() != len(out) {
				return ir.Type{}, fmt.Errorf("operands are %v and %v; want equal ranks", first, t)
			}
			for i, d := range t.Shape {
				if i != axis && d != out[i] {
					return ir.Type{}, ir.Differ(d, out[i], "operands are %v and %v; want equal dims except on axis %d",
						first, t, axis)
				}
			}
			sum, ok := out[axis].Add(t.Shape[axis])
			if !ok {
				return ir.Type{}, fmt.Errorf("sizes %v and %v of axis %d have a sum that is beyond the limits of a dim",
					out[axis], t.Shape[axis], axis)
			}
			out[axis] = sum
		}
		return ir.Type{DType: first.DType, Shape: out}, nil
	},
	Eval: func(a ConcatAttrs, in []*tensor.Array, out *tensor.Array) error {
		outer, row, at := tensor.Numel(out.Shape[:a.Axis]), tensor.Numel(out.Shape[a.Axis:]), 0
		for _, x := range in {
			n := tensor.Numel(x.Shape[a.Axis:])
			for o := range outer {
				copyRange(out, o*row+at, x, o*n, n)
			}
			at += n
		}
		return nil
	},
	FLOPs: noFLOPs[ConcatAttrs],
	Tol:   exact[ConcatAttrs],
	Cases: func() []ir.Case[ConcatAttrs] {
		c := func(axis int, in ...ir.Type) ir.Case[ConcatAttrs] {
			return ir.Case[ConcatAttrs]{Attrs: ConcatAttrs{axis}, In: in}
		}
		cases := []ir.Case[ConcatAttrs]{
			c(0, f32(3)), c(0, f32(3), f32(0), f32(4)), c(1, f32(3, 2), f32(3, 5)),
			c(1, f32(2, 1, 3), f32(2, 4, 3), f32(2, 2, 3)),
			c(0, f32(2, 3), f32(1, 3)), c(2, f32(0, 2, 3), f32(0, 2, 1)),
		}
		for _, d := range elementTypes() {
			cases = append(cases, c(1, ir.TypeOf(d, 2, 3), ir.TypeOf(d, 2, 5)))
		}
		return cases
	},
})

// Concat adds the operands joined along an axis.
func Concat(axis int, in ...*ir.Node) *ir.Node {
	return in[0].Graph.Add(ConcatDef, ConcatAttrs{fromEnd(axis, in[0])}, in...)
}

// The plainer form joins two operands at a time.
var _ = ir.Plainer(ConcatDef, func(_ *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	if len(in) <= 2 {
		return nil
	}
	axis, half := n.Attrs.(ConcatAttrs).Axis, len(in)/2
	left := in[0]
	if half > 1 {
		left = Concat(axis, in[:half]...)
	}
	return Concat(axis, left, Concat(axis, in[half:]...))
})

var _ = gradient(ConcatDef, func(n *ir.Node, a ConcatAttrs, dy *ir.Node) []*ir.Node {
	parts, start := make([]*ir.Node, len(n.In)), ir.Static(0)
	for k, x := range n.In {
		size := x.Type.Shape[a.Axis]
		parts[k] = cut(dy, a.Axis, start, size)
		start, _ = start.Add(size)
	}
	return parts
})
