package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
)

// SigmoidDef defines 1 / (1 + exp(-x)).
var SigmoidDef = activation(
	unary("sigmoid", "y = 1 / (1 + exp(-x)); it must reach 0 and 1 for large |x| without NaN.", 5, rounded[NoAttrs],
		wide,
		sigmoidOf))

// Sigmoid returns a node that computes 1 / (1 + exp(-x)).
func Sigmoid(x *ir.Node) *ir.Node { return x.Graph.Add(SigmoidDef, NoAttrs{}, x) }

var _ = lowerUnary(SigmoidDef, func(x *ir.Node) *ir.Node { return Div(number(1, x), Add(Exp(Neg(x)), number(1, x))) })

// sigmoidOf does not overflow, so that it is accurate for all x.
func sigmoidOf(x float64) float64 {
	if x < 0 {
		e := math.Exp(x)
		return e / (1 + e)
	}
	return 1 / (1 + math.Exp(-x))
}

var _ = gradientUnary(SigmoidDef, func(_, y *ir.Node, _ NoAttrs, dy *ir.Node) *ir.Node {
	return Mul(dy, Mul(y, constMinus(1, y)))
})
