package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// LogSumExpDef defines the logarithm of a sum of exponentials over axes.
var LogSumExpDef = ir.Define(ir.Def[ReduceAttrs]{
	Name: "logsumexp",
	Doc: "log(sum of exp(x)) over axes, floats only, computed as m + log(sum of exp(x - m)), m the maximum. -Inf over nothing and where all is " +
		"-Inf; NaN if any element is NaN, otherwise +Inf if any is.",
	Operands: "x",
	Infer: func(s ir.Sig[ReduceAttrs]) (ir.Type, error) {
		if err := isFloat("operand", s.In[0]); err != nil {
			return ir.Type{}, err
		}
		return s.Attrs.infer(s.In[0])
	},
	Eval: func(a ReduceAttrs, in []*tensor.Array, out *tensor.Array) error {
		x, to := in[0], a.places(in[0])
		most := make([]float64, out.Len())
		for i := range most {
			most[i] = math.Inf(-1)
		}
		tensor.Walk(x.Shape, to, func(i int, p []int) { most[p[0]] = max(most[p[0]], x.Floats[i]) })
		for i, m := range most {
			if math.IsInf(m, 0) {
				most[i] = 0
			}
		}
		tensor.Walk(x.Shape, to, func(i int, p []int) { out.Floats[p[0]] += math.Exp(x.Floats[i] - most[p[0]]) })
		for i, m := range most {
			out.Floats[i] = m + math.Log(out.Floats[i])
		}
		return nil
	},
	Memory: func(s ir.Sig[ReduceAttrs], out ir.Type) int64 { return 8 * s.Syms.MaxElems(out) },
	FLOPs:  func(_ ReduceAttrs, in []ir.Type, _ ir.Type) int64 { return 5 * numel(in[0]) },
	Tol:    rounded[ReduceAttrs],
	Cases: func() []ir.Case[ReduceAttrs] {
		c := func(t ir.Type, keep bool, axes ...int) ir.Case[ReduceAttrs] {
			return ir.Case[ReduceAttrs]{Attrs: ReduceAttrs{axes, keep}, In: []ir.Type{t},
				Fill: []ir.Range{{Lo: -8, Hi: 8}}}
		}
		return []ir.Case[ReduceAttrs]{
			c(f32(), false), c(f32(7), true, 0), c(f32(3, 5), false, 1), c(f32(3, 5), false, 0),
			c(f32(3, 5), true, 0, 1), c(f32(2, 3, 4), false, 0, 2),
			c(f32(3, 1), false, 1), c(f32(3, 0), false, 1), c(f32(0, 3), false, 1), c(f32(5, 300), false, 1),
			c(f16(3, 9), false, 1),
			c(bf16(9, 3), false, 0), c(f64(3, 5), false, 1),
		}
	},
})

// LogSumExp returns a node that computes log(sum of exp(x)) over axes. If keepDims is set, the reduced axes stay, with
// size 1.
func LogSumExp(x *ir.Node, keepDims bool, axes ...int) *ir.Node {
	return addReduce(LogSumExpDef, x, keepDims, axes)
}

// An infinite maximum is replaced by 0, because Inf - Inf is NaN.
var _ = ir.Lower(LogSumExpDef, func(_ *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	a := n.Attrs.(ReduceAttrs)
	m := ReduceMax(in[0], true, a.Axes...)
	m = Where(Eq(Abs(m), number(math.Inf(1), m)), number(0, m), m)
	sum := ReduceSum(Exp(Sub(in[0], m)), a.KeepDims, a.Axes...)
	return Add(Log(sum), Reshape(m, n.Type.Shape))
})

// The derivative is the softmax. An infinite result is replaced by 0, because Inf - Inf is NaN.
var _ = gradientUnary(LogSumExpDef, func(x, y *ir.Node, a ReduceAttrs, dy *ir.Node) *ir.Node {
	shape := x.Type.Shape
	y = Where(Eq(Abs(y), number(math.Inf(1), y)), number(0, y), y)
	return Mul(a.spread(dy, shape), Exp(Sub(x, a.spread(y, shape))))
})
