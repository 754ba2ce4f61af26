package op

import (
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// SplitAttrs are the attributes of split: either Parts or Sizes is set.
type SplitAttrs struct {
	Axis  int   `attr:"axis"`
	Parts int   `attr:"parts"` // number of parts of equal size, which must divide the axis
	Sizes []int `attr:"sizes"` // size of each part; they add up to the size of the axis
}

// SplitDef cuts a tensor into parts along an axis. It is a block: one narrow for each part. A kernel could not be
// better, because each part is either a view or a copy of exactly its own bytes.
var SplitDef = ir.DefineTuple(ir.TupleDef[SplitAttrs]{
	Name: "split",
	Doc: "x cut along an axis of static size into parts that follow one another. They have equal sizes, and " +
		"parts is their number; or sizes has the size of each. The parts are views where narrow gives views.",
	Results:  "the parts in order",
	Operands: "x",
	Block:    true,
	Infer: func(s ir.Sig[SplitAttrs]) ([]ir.Type, error) {
		a, x := s.Attrs, s.In[0]
		if err := checkAxis(a.Axis, x.Rank()); err != nil {
			return nil, err
		}
		sizes, err := a.sizes(x.Shape[a.Axis])
		if err != nil {
			return nil, err
		}
		out := make([]ir.Type, len(sizes))
		for k, n := range sizes {
			out[k] = ir.Type{DType: x.DType, Shape: append(ir.Shape{}, x.Shape...)}
			out[k].Shape[a.Axis] = ir.Static(int64(n))
		}
		return out, nil
	},
	Eval: func(a SplitAttrs, in, out []*tensor.Array) error {
		start := 0
		for _, x := range out {
			n := x.Shape[a.Axis]
			narrow(in[0], x, a.Axis, start, n)
			start += n
		}
		return nil
	},
	Tol: exactAll[SplitAttrs],
	Cases: func() []ir.Case[SplitAttrs] {
		c := func(t ir.Type, a SplitAttrs) ir.Case[SplitAttrs] {
			return ir.Case[SplitAttrs]{Attrs: a, In: []ir.Type{t}}
		}
		cases := []ir.Case[SplitAttrs]{
			c(f32(6), SplitAttrs{Parts: 3}), c(f32(4, 6), SplitAttrs{Parts: 2}),
			c(f32(4, 6), SplitAttrs{Axis: 1, Parts: 2}), c(f32(5), SplitAttrs{Parts: 1}),
			c(f32(7, 2), SplitAttrs{Sizes: []int{3, 0, 4}}), c(f32(2, 7, 3), SplitAttrs{Axis: 1, Sizes: []int{1, 6}}),
			c(f32(0, 4), SplitAttrs{Axis: 1, Parts: 4}),
		}
		for _, d := range elementTypes() {
			cases = append(cases, c(ir.TypeOf(d, 3, 4), SplitAttrs{Axis: 1, Sizes: []int{3, 1}}))
		}
		return cases
	},
})

// sizes returns the sizes of the parts of an axis.
func (a SplitAttrs) sizes(axis ir.Dim) ([]int, error) {
	if !axis.IsStatic() {
		return nil, fmt.Errorf("axis %d has size %v; want a size that is known when the model is compiled", a.Axis,
			axis)
	}
	if len(a.Sizes) > 0 {
		if a.Parts != 0 {
			return nil, fmt.Errorf("parts is %d and sizes %v; want one of them", a.Parts, a.Sizes)
		}
		left := axis.Const
		for _, n := range a.Sizes {
			if n < 0 || int64(n) > left {
				return nil, fmt.Errorf("sizes %v do not make up axis %d, which has %v", a.Sizes, a.Axis, axis)
			}
			left -= int64(n)
		}
		if left != 0 {
			return nil, fmt.Errorf("sizes %v leave %d of the %v of axis %d", a.Sizes, left, axis, a.Axis)
		}
		return a.Sizes, nil
	}
	if a.Parts < 1 || a.Parts > ir.MaxResults || axis.Const%int64(a.Parts) != 0 {
		return nil, fmt.Errorf("parts is %d; want 1 to %d, a divisor of the %v of axis %d", a.Parts, ir.MaxResults,
			axis, a.Axis)
	}
	sizes := make([]int, a.Parts)
	for k := range sizes {
		sizes[k] = int(axis.Const) / a.Parts
	}
	return sizes, nil
}

var _ = ir.LowerTuple(SplitDef, func(_ *ir.Graph, n *ir.Node, in []*ir.Node) []*ir.Node {
	a, start := n.Attrs.(SplitAttrs), 0
	parts := make([]*ir.Node, len(n.Results))
	for k, t := range n.Results {
		size := int(t.Shape[a.Axis].Const)
		parts[k] = Narrow(in[0], a.Axis, start, size)
		start += size
	}
	return parts
})

// Split cuts x along an axis into parts of equal size.
func Split(x *ir.Node, axis, parts int) []*ir.Node {
	return x.Graph.AddResults(parts, SplitDef, SplitAttrs{Axis: fromEnd(axis, x), Parts: parts}, x)
}

// SplitSizes cuts x along an axis into parts of the given sizes, which must add up to the size of the axis.
func SplitSizes(x *ir.Node, axis int, sizes ...int) []*ir.Node {
	return x.Graph.AddResults(len(sizes), SplitDef, SplitAttrs{Axis: fromEnd(axis, x), Sizes: sizes}, x)
}

// A part without a gradient counts as zeros.
var _ = ir.Gradient(SplitDef, func(n *ir.Node, dy []*ir.Node) ([]*ir.Node, error) {
	parts := make([]*ir.Node, len(dy))
	for k, y := range dy {
		parts[k] = y
		if y == nil {
			parts[k] = Const(n.Graph, 0, n.Results[k])
		}
	}
	return []*ir.Node{Concat(n.Attrs.(SplitAttrs).Axis, parts...)}, nil
})
