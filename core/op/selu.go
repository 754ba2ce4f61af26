package op

import "github.com/rlx-go/rlx/core/ir"

// SeluDef defines the SELU.
var SeluDef = activation(
	unary(
		"selu", "y = scale * (x above 0, alpha * (e^x - 1) elsewhere), scale = 1.05070098735548, alpha = 1.67326324235438: Klambauer et al., Self-Normalizing Neural Networks (2017).",
		8, rounded[NoAttrs], wide,
		func(x float64) float64 { return seluScale * eluOf(seluAlpha, x) }))

// Selu returns a node that computes the SELU of x.
func Selu(x *ir.Node) *ir.Node { return x.Graph.Add(SeluDef, NoAttrs{}, x) }

var _ = lowerUnary(SeluDef, func(x *ir.Node) *ir.Node { return Mul(Elu(x, seluAlpha), number(seluScale, x)) })

// Constants from the paper.
const (
	seluAlpha = 1.6732632423543772
	seluScale = 1.0507009873554805
)

var _ = gradientUnary(SeluDef, func(x, _ *ir.Node, _ NoAttrs, dy *ir.Node) *ir.Node {
	return timesConst(Where(Gt(x, number(0, x)), dy, Mul(dy, timesConst(Exp(x), seluAlpha))), seluScale)
})
