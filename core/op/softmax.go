package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// SoftmaxAttrs are the attributes of softmax.
type SoftmaxAttrs struct {
	Axis int `attr:"axis"`
}

// SoftmaxDef normalises exponentials along an axis.
var SoftmaxDef = ir.Define(ir.Def[SoftmaxAttrs]{
	Name: "softmax",
	Doc: "y = exp(x - m) / sum of exp(x - m) along an axis, m the maximum on it. A row of -Inf only gives NaN (attention has " +
		"a rule of its own); so does a row with NaN or +Inf.",
	Operands: "x",
	Infer:    inferSoftmax,
	Eval:     alongAxis(softmaxRow),
	FLOPs:    perElement[SoftmaxAttrs](7),
	Tol:      rounded[SoftmaxAttrs],
	Cases:    softmaxCases,
})

func inferSoftmax(s ir.Sig[SoftmaxAttrs]) (ir.Type, error) {
	if err := isFloat("operand", s.In[0]); err != nil {
		return ir.Type{}, err
	}
	return s.In[0], checkAxis(s.Attrs.Axis, s.In[0].Rank())
}

// alongAxis returns an evaluation that calls row for each line of elements along the axis. A line has n elements that
// are step apart.
func alongAxis(row func(x, y []float64, n, step int)) func(a SoftmaxAttrs, in []*tensor.Array,
	out *tensor.Array) error {
	return func(a SoftmaxAttrs, in []*tensor.Array, out *tensor.Array) error {
		if out.Len() == 0 {
			return nil
		}
		n, inner := out.Shape[a.Axis], tensor.Numel(out.Shape[a.Axis+1:])
		for o := range tensor.Numel(out.Shape[:a.Axis]) {
			for i := range inner {
				row(in[0].Floats[o*n*inner+i:], out.Floats[o*n*inner+i:], n, inner)
			}
		}
		return nil
	}
}

func softmaxCases() []ir.Case[SoftmaxAttrs] {
	c := func(t ir.Type, axis int) ir.Case[SoftmaxAttrs] {
		return ir.Case[SoftmaxAttrs]{Attrs: SoftmaxAttrs{axis}, In: []ir.Type{t}, Fill: []ir.Range{{Lo: -8, Hi: 8}}}
	}
	return []ir.Case[SoftmaxAttrs]{
		c(f32(1), 0), c(f32(7), 0), c(f32(3, 5), 1), c(f32(3, 5), 0), c(f32(2, 7, 3), 1), c(f32(0, 4), 1),
		c(f32(4, 0), 1), c(f32(3, 0, 4), 1), c(f32(5, 300), 1),
		c(f16(3, 9), 1), c(bf16(3, 9), 1), c(f64(3, 5), 1), c(f16(2, 7, 3), 1), c(f64(2, 7, 3), 1), c(f32(2, 9000), 1),
	}
}

// Softmax adds a softmax over axis.
func Softmax(x *ir.Node, axis int) *ir.Node {
	return x.Graph.Add(SoftmaxDef, SoftmaxAttrs{fromEnd(axis, x)}, x)
}

// softmaxRow writes the softmax of n elements of x to y. They are step apart.
func softmaxRow(x, y []float64, n, step int) {
	m, sum := math.Inf(-1), 0.0
	for k := range n {
		m = max(m, x[k*step])
	}
	for k := range n {
		y[k*step] = math.Exp(x[k*step] - m)
		sum += y[k*step]
	}
	for k := range n {
		y[k*step] /= sum
	}
}

var _ = ir.Lower(SoftmaxDef, func(_ *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	axis := n.Attrs.(SoftmaxAttrs).Axis
	e := Exp(Sub(in[0], ReduceMax(in[0], true, axis)))
	return Div(e, ReduceSum(e, true, axis))
})

// plainAlongLast registers a plainer form of a function of rows, which works along the last axis, between two
// transposes.
func plainAlongLast(def *ir.OpDef) struct{} {
	return ir.Plainer(def, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
		last := n.Type.Rank() - 1
		perm := swapped(n.Attrs.(SoftmaxAttrs).Axis, last, n.Type.Rank())
		if perm == nil {
			return nil
		}
		return Transpose(g.Add(def, SoftmaxAttrs{last}, Transpose(in[0], perm...)), perm...)
	})
}

var _ = plainAlongLast(SoftmaxDef)

var _ = gradientUnary(SoftmaxDef, func(_, y *ir.Node, a SoftmaxAttrs, dy *ir.Node) *ir.Node {
	return Mul(y, Sub(dy, ReduceSum(Mul(dy, y), true, a.Axis)))
})
