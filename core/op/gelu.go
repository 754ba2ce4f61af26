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
