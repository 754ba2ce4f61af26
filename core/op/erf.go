package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
)

// ErfDef defines the error function.
var ErfDef = unary("erf", "y = erf x = 2/sqrt(pi) * integral from 0 to x of exp(-t^2).", 10, rounded[NoAttrs], wide,
	math.Erf)

// Erf returns a node that computes the error function.
func Erf(x *ir.Node) *ir.Node { return x.Graph.Add(ErfDef, NoAttrs{}, x) }

var _ = gradientUnary(ErfDef, func(x, _ *ir.Node, _ NoAttrs, dy *ir.Node) *ir.Node {
	return Mul(dy, timesConst(Exp(Neg(Square(x))), 2/math.Sqrt(math.Pi)))
})
