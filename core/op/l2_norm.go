package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// L2NormAttrs are the attributes of l2_norm.
type L2NormAttrs struct {
	Axes []int   `attr:"axes"` // ascending
	Eps  float64 `attr:"eps"`  // the smallest divisor
}

// L2NormDef scales vectors to length 1.
var L2NormDef = ir.Define(ir.Def[L2NormAttrs]{
	Name: "l2_norm",
	Doc: "y = x / max(sqrt(sum of x^2), eps), the sum over axes, as PyTorch's F.normalize with p = 2 has it: eps bounds the length from below and is " +
		"not added to it. NaN in a vector makes all of it NaN.",
	Operands: "x",
	Infer: func(s ir.Sig[L2NormAttrs]) (ir.Type, error) {
		x := s.In[0]
		if err := isFloat("operand", x); err != nil {
			return ir.Type{}, err
		}
		if err := checkAxes(s.Attrs.Axes, x.Rank()); err != nil {
			return ir.Type{}, err
		}
		return x, checkEps(s.Attrs.Eps)
	},
	Eval: func(a L2NormAttrs, in []*tensor.Array, out *tensor.Array) error {
		x, to := in[0], ReduceAttrs{Axes: a.Axes}.places(in[0])
		length := make([]float64, len(x.Floats)) // at least one for each vector that has elements
		tensor.Walk(x.Shape, to, func(i int, p []int) { length[p[0]] += x.Floats[i] * x.Floats[i] })
		tensor.Walk(x.Shape, to, func(i int, p []int) {
			out.Floats[i] = x.Floats[i] / max(math.Sqrt(length[p[0]]), a.Eps)
		})
		return nil
	},
	Memory: func(s ir.Sig[L2NormAttrs], out ir.Type) int64 { return 8 * s.Syms.MaxElems(out) },
	FLOPs:  perElement[L2NormAttrs](3),
	Tol:    rounded[L2NormAttrs],
	Cases: func() []ir.Case[L2NormAttrs] {
		c := func(x ir.Type, axes ...int) ir.Case[L2NormAttrs] {
			return ir.Case[L2NormAttrs]{Attrs: L2NormAttrs{axes, 1e-6}, In: []ir.Type{x}}
		}
		return []ir.Case[L2NormAttrs]{
			c(f32(7), 0), c(f32(3, 5), 1), c(f32(3, 5), 0), c(f32(3, 5), 0, 1), c(f32(2, 3, 4), 1),
			c(f32(2, 3, 4), 0, 2), c(f32(0, 4), 1), c(f32(4, 0), 1), c(f32(5, 300), 1),
			c(f16(3, 9), 1), c(bf16(3, 9), 1), c(f64(3, 5), 1),
			{Attrs: L2NormAttrs{[]int{1}, 100}, In: []ir.Type{f32(3, 5)}},
		}
	},
})

// L2Norm returns a node that computes x / max(sqrt(sum of x^2 over axes), eps).
func L2Norm(x *ir.Node, eps float64, axes ...int) *ir.Node {
	return x.Graph.Add(L2NormDef, L2NormAttrs{sortedAxes(axes, x), eps}, x)
}

var _ = ir.Lower(L2NormDef, func(_ *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	a, x := n.Attrs.(L2NormAttrs), in[0]
	return Div(x, Max(Sqrt(ReduceSum(Mul(x, x), true, a.Axes...)), number(a.Eps, x)))
})

// With l = max(sqrt(sum of x^2), eps): dx = (dy - y * sum of dy*y) / l, without the second term where eps is larger.
var _ = ir.Gradient(L2NormDef, func(n *ir.Node, dy []*ir.Node) ([]*ir.Node, error) {
	a, in := n.Attrs.(L2NormAttrs), allWidened(n.In[0], dy[0])
	x, g := in[0], in[1]
	eps := number(a.Eps, x)
	length := Sqrt(ReduceSum(Mul(x, x), true, a.Axes...))
	divisor := Max(length, eps)
	y := Div(x, divisor)
	turned := Mul(y, ReduceSum(Mul(g, y), true, a.Axes...))
	dx := Div(Sub(g, Where(Ge(length, eps), turned, number(0, x))), divisor)
	return narrowed([]*ir.Node{dx}, n.In), nil
})
