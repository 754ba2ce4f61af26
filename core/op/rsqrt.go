package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
)

// RsqrtDef defines 1 / sqrt(x).
var RsqrtDef = unary("rsqrt", "y = 1 / sqrt x; +Inf at 0, NaN below.", 2, rounded[NoAttrs], ir.Range{Lo: 0.01, Hi: 8},
	func(x float64) float64 { return 1 / math.Sqrt(x) })

// Rsqrt returns a node that computes 1 / sqrt(x).
func Rsqrt(x *ir.Node) *ir.Node { return x.Graph.Add(RsqrtDef, NoAttrs{}, x) }

var _ = lowerUnary(RsqrtDef, func(x *ir.Node) *ir.Node { return Div(number(1, x), Sqrt(x)) })

var _ = gradientUnary(RsqrtDef, func(_, y *ir.Node, _ NoAttrs, dy *ir.Node) *ir.Node {
	return Mul(dy, timesConst(Mul(Square(y), y), -0.5))
})
