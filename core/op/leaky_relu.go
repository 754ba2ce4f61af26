package op

import (
	"github.com/rlx-go/rlx/core/ir"
)

// LeakyReluAttrs are the attributes of leaky_relu.
type LeakyReluAttrs struct {
	Slope float64 `attr:"slope"` // slope of the line below 0
}

// LeakyReluDef defines x above 0, and a multiple of x below.
var LeakyReluDef = activation(defineUnary(unarySpec[LeakyReluAttrs]{
	name: "leaky_relu", flops: 2, tol: rounded[LeakyReluAttrs], fill: wide,
	doc: "y = x where x > 0, slope*x elsewhere.",
	float: func(a LeakyReluAttrs, x float64) float64 {
		if x > 0 {
			return x
		}
		return a.Slope * x
	},
	with:  func(p Params) LeakyReluAttrs { return LeakyReluAttrs{p[0]} },
	check: func(a LeakyReluAttrs) error { return isNumber("slope", a.Slope) },
	attrs: []LeakyReluAttrs{{0.01}, {-0.5}, {}, {3}},
}))

// LeakyRelu returns a node that computes x if it is above 0, and slope*x otherwise.
func LeakyRelu(x *ir.Node, slope float64) *ir.Node {
	return x.Graph.Add(LeakyReluDef, LeakyReluAttrs{slope}, x)
}

var _ = lowerWith(LeakyReluDef, func(x *ir.Node, a LeakyReluAttrs) *ir.Node {
	return Where(Gt(x, number(0, x)), x, Mul(x, number(a.Slope, x)))
})

var _ = gradientUnary(LeakyReluDef, func(x, _ *ir.Node, a LeakyReluAttrs, dy *ir.Node) *ir.Node {
	return Where(Gt(x, number(0, x)), dy, timesConst(dy, a.Slope))
})
