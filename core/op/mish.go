package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
)

// MishDef defines x * tanh(softplus(x)).
var MishDef = activation(unary("mish", "y = x * tanh(ln(1 + e^x)), Misra, Mish (2019).", 12, rounded[NoAttrs], wide,
	func(x float64) float64 { return x * math.Tanh(math.Log1p(math.Exp(x))) }))

// Mish returns a node that computes x * tanh(softplus(x)).
func Mish(x *ir.Node) *ir.Node { return x.Graph.Add(MishDef, NoAttrs{}, x) }

var _ = lowerUnary(MishDef, func(x *ir.Node) *ir.Node { return Mul(x, Tanh(Softplus(x, 1, math.Inf(1)))) })
