package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
)

// Expm1Def defines e^x - 1.
var Expm1Def = unary("expm1", "y = e^x - 1, as exact near 0 as elsewhere; -1 at -Inf.", 6, rounded[NoAttrs], wide,
	math.Expm1)

// Expm1 returns a node that computes e^x - 1.
func Expm1(x *ir.Node) *ir.Node { return x.Graph.Add(Expm1Def, NoAttrs{}, x) }

var _ = lowerUnary(Expm1Def, func(x *ir.Node) *ir.Node {
	// tanh(x/2) * (e^x + 1), which does not cancel; for large x that is e^x + 1, where 1 is lost anyway.
	return Mul(Tanh(Mul(x, number(0.5, x))), Add(Exp(x), number(1, x)))
})

var _ = gradientUnary(Expm1Def, func(_, y *ir.Node, _ NoAttrs, dy *ir.Node) *ir.Node {
	return Mul(dy, plusConst(y, 1))
})
