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
