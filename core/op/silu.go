package op

import (
	"github.com/rlx-go/rlx/core/ir"
)

// SiluDef defines x * sigmoid(x).
var SiluDef = activation(unary("silu", "y = x * sigmoid(x), also called swish.", 6, rounded[NoAttrs], wide,
	func(x float64) float64 { return x * sigmoidOf(x) }))

// Silu returns a node that computes x * sigmoid(x).
func Silu(x *ir.Node) *ir.Node { return x.Graph.Add(SiluDef, NoAttrs{}, x) }

var _ = lowerUnary(SiluDef, func(x *ir.Node) *ir.Node { return Div(x, Add(Exp(Neg(x)), number(1, x))) })

// The derivative is s + x s (1 - s) with s = sigmoid(x).
var _ = gradientUnary(SiluDef, func(x, _ *ir.Node, _ NoAttrs, dy *ir.Node) *ir.Node {
	s := Sigmoid(x)
	return Mul(dy, Mul(s, plusConst(Mul(x, constMinus(1, s)), 1)))
})
