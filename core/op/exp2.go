package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
)

// Exp2Def defines 2^x.
var Exp2Def = unary("exp2", "y = 2^x.", 4, rounded[NoAttrs], ir.Range{Lo: -6, Hi: 6},
	math.Exp2)

// Exp2 returns a node that computes 2^x.
func Exp2(x *ir.Node) *ir.Node { return x.Graph.Add(Exp2Def, NoAttrs{}, x) }

// 2^x is e^(n ln 2) * e^((x-n) ln 2), where n is x rounded to an integer. e^(x ln 2) would have the rounding error of x
// ln 2 up to 89 times. The first exponent is exact: high has 15 bits and n has 8.
var _ = lowerUnary(Exp2Def, func(x *ir.Node) *ir.Node {
	const high = 0.693145751953125
	n := Max(Min(Round(x), number(128, x)), number(-150, x)) // finite, so that x - n is infinite if x is
	rest := Add(Mul(n, number(math.Ln2-high, x)), Mul(Sub(x, n), number(math.Ln2, x)))
	return Mul(Exp(Mul(n, number(high, x))), Exp(rest))
})

var _ = gradientUnary(Exp2Def, func(_, y *ir.Node, _ NoAttrs, dy *ir.Node) *ir.Node {
	return Mul(dy, timesConst(y, math.Ln2))
})
