package op

import (
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// RepeatAttrs are the attributes of repeat.
type RepeatAttrs struct {
	Axis  int `attr:"axis"`
	Times int `attr:"times"`
}

// RepeatDef repeats each slice of an axis. It is a block: an expand between reshapes.
var RepeatDef = ir.Define(ir.Def[RepeatAttrs]{
	Name:     "repeat",
	Doc:      "Each slice of x along an axis, repeated times (0 or more) in place: [a b] twice is [a a b b]. NumPy's repeat, PyTorch's repeat_interleave.",
	Block:    true,
	Operands: "x",
	Infer: func(s ir.Sig[RepeatAttrs]) (ir.Type, error) {
		x, a := s.In[0], s.Attrs
		if err := checkAxis(a.Axis, x.Rank()); err != nil {
			return ir.Type{}, err
		}
		n, err := times(x.Shape[a.Axis], "times", a.Times)
		if err != nil {
			return ir.Type{}, err
		}
		out := append(ir.Shape{}, x.Shape...)
		out[a.Axis] = n
		return ir.Type{DType: x.DType, Shape: out}, nil
	},
	Eval: func(a RepeatAttrs, in []*tensor.Array, out *tensor.Array) error {
		inner := tensor.Numel(out.Shape[a.Axis+1:])
		for i := range tensor.Numel(out.Shape[:a.Axis+1]) {
			copyRange(out, i*inner, in[0], i/a.Times*inner, inner)
		}
		return nil
	},
	FLOPs: noFLOPs[RepeatAttrs],
	Tol:   exact[RepeatAttrs],
	Cases: func() []ir.Case[RepeatAttrs] {
		c := func(axis, times int, t ir.Type) ir.Case[RepeatAttrs] {
			return ir.Case[RepeatAttrs]{Attrs: RepeatAttrs{axis, times}, In: []ir.Type{t}}
		}
		cases := []ir.Case[RepeatAttrs]{
			c(0, 1, f32(3)), c(0, 3, f32(4)), c(0, 0, f32(4)), c(0, 2, f32(0, 3)), c(1, 4, f32(2, 3, 5)),
			c(2, 2, f32(2, 3, 5)), c(0, 5, f32(1, 7)),
		}
		for _, d := range elementTypes() {
			cases = append(cases, c(1, 3, ir.TypeOf(d, 2, 3)))
		}
		return cases
	},
})

var _ = ir.Lower(RepeatDef, func(_ *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	a := n.Attrs.(RepeatAttrs)
	return repeated(in[0], a.Axis, a.Axis+1, a.Times)
})

// Repeat adds x with each slice along an axis repeated the given number of times: [a b] twice is [a a b b].
func Repeat(x *ir.Node, axis, times int) *ir.Node {
	return x.Graph.Add(RepeatDef, RepeatAttrs{fromEnd(axis, x), times}, x)
}
