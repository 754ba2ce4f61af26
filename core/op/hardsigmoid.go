package op

import (
	"cmp"

	"github.com/rlx-go/rlx/core/ir"
)

// HardsigmoidAttrs are the attributes of hardsigmoid.
type HardsigmoidAttrs struct {
	Alpha float64 `attr:"alpha"` // the slope
	Beta  float64 `attr:"beta"`  // y at 0
}

// HardsigmoidDef defines a sigmoid made of three straight lines.
var HardsigmoidDef = activation(defineUnary(unarySpec[HardsigmoidAttrs]{
	name: "hardsigmoid", flops: 4, tol: rounded[HardsigmoidAttrs], fill: wide,
	doc:   "y = min(max(alpha*x + beta, 0), 1). PyTorch has alpha = 1/6 and beta = 1/2, ONNX 0.2 and 0.5 unless it says otherwise.",
	float: hardsigmoidOf,
	with:  func(p Params) HardsigmoidAttrs { return HardsigmoidAttrs{p[0], p[1]} },
	check: func(a HardsigmoidAttrs) error {
		return cmp.Or(isNumber("alpha", a.Alpha), isNumber("beta", a.Beta))
	},
	attrs: []HardsigmoidAttrs{{1. / 6, 0.5}, {0.2, 0.5}, {-1, 0.25}},
}))

// Hardsigmoid returns a node that computes min(max(alpha*x + beta, 0), 1).
func Hardsigmoid(x *ir.Node, alpha, beta float64) *ir.Node {
	return x.Graph.Add(HardsigmoidDef, HardsigmoidAttrs{alpha, beta}, x)
}

var _ = lowerWith(HardsigmoidDef, func(x *ir.Node, a HardsigmoidAttrs) *ir.Node {
	return Min(Max(Add(Mul(x, number(a.Alpha, x)), number(a.Beta, x)), number(0, x)), number(1, x))
})

func hardsigmoidOf(a HardsigmoidAttrs, x float64) float64 { return min(max(a.Alpha*x+a.Beta, 0), 1) }

// The derivative at the two corners is 0, as in PyTorch.
var _ = gradientUnary(HardsigmoidDef, func(x, _ *ir.Node, a HardsigmoidAttrs, dy *ir.Node) *ir.Node {
	t := plusConst(timesConst(x, a.Alpha), a.Beta)
	inside := And(Gt(t, number(0, t)), Lt(t, number(1, t)))
	return Where(inside, timesConst(dy, a.Alpha), number(0, x))
})
