package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
)

// GeluDef defines the exact GELU, x/2 * (1 + erf(x/sqrt 2)).
var GeluDef = activation(
	unary(
		"gelu", "y = x/2 * (1 + erf(x/sqrt 2)), the exact GELU of Hendrycks and Gimpel (2016); never the tanh form (gelu_tanh).",
		12, rounded[NoAttrs], wide,
		func(x float64) float64 { return 0.5 * x * math.Erfc(-x/math.Sqrt2) }))

// Gelu returns a node that computes the exact GELU, x/2 * (1 + erf(x/sqrt 2)).
func Gelu(x *ir.Node) *ir.Node { return x.Graph.Add(GeluDef, NoAttrs{}, x) }

var _ = lowerUnary(GeluDef, func(x *ir.Node) *ir.Node {
	return Mul(Mul(x, number(0.5, x)), Add(Erf(Mul(x, number(1/math.Sqrt2, x))), number(1, x)))
})

// The derivative is P + x p, where P and p are the distribution function and density of the normal distribution.
var _ = gradientUnary(GeluDef, func(x, _ *ir.Node, _ NoAttrs, dy *ir.Node) *ir.Node {
	distribution := timesConst(plusConst(Erf(timesConst(x, 1/math.Sqrt2)), 1), 0.5)
	density := timesConst(Exp(timesConst(Square(x), -0.5)), 1/math.Sqrt(2*math.Pi))
	return Mul(dy, Add(distribution, Mul(x, density)))
})
