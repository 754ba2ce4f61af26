package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
)

// LogSoftmaxDef defines the logarithm of softmax.
var LogSoftmaxDef = ir.Define(ir.Def[SoftmaxAttrs]{
	Name: "log_softmax",
	Doc: "y = (x - m) - log(sum of exp(x - m)) along an axis, m the maximum on it: the logarithm of softmax, without its underflow. A row of " +
		"-Inf only gives NaN; so does a row with NaN or +Inf.",
	Operands: "x",
	Infer:    inferSoftmax,
	Eval: alongAxis(func(x, y []float64, n, step int) {
		m, sum := math.Inf(-1), 0.0
		for k := range n {
			m = max(m, x[k*step])
		}
		for k := range n {
			sum += math.Exp(x[k*step] - m)
		}
		for k := range n {
			y[k*step] = (x[k*step] - m) - math.Log(sum)
		}
	}),
	FLOPs: perElement[SoftmaxAttrs](7),
	Tol:   rounded[SoftmaxAttrs],
	Cases: softmaxCases,
})

// LogSoftmax adds the logarithm of a softmax over axis.
func LogSoftmax(x *ir.Node, axis int) *ir.Node {
	return x.Graph.Add(LogSoftmaxDef, SoftmaxAttrs{fromEnd(axis, x)}, x)
}

var _ = ir.Lower(LogSoftmaxDef, func(_ *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	axis := n.Attrs.(SoftmaxAttrs).Axis
	d := Sub(in[0], ReduceMax(in[0], true, axis))
	return Sub(d, Log(ReduceSum(Exp(d), true, axis)))
})

var _ = plainAlongLast(LogSoftmaxDef)

var _ = gradientUnary(LogSoftmaxDef, func(_, y *ir.Node, a SoftmaxAttrs, dy *ir.Node) *ir.Node {
	return Sub(dy, Mul(Exp(y), ReduceSum(dy, true, a.Axis)))
})
