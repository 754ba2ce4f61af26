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

// y = x w with w = tanh(softplus(x)), and softplus' = sigmoid.
var _ = gradientUnary(MishDef, func(x, _ *ir.Node, _ NoAttrs, dy *ir.Node) *ir.Node {
	w := Tanh(Softplus(x, 1, math.Inf(1)))
	return Mul(dy, Add(w, Mul(Mul(x, Sigmoid(x)), constMinus(1, Square(w)))))
})
