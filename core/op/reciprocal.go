package op

import "github.com/rlx-go/rlx/core/ir"

// ReciprocalDef defines 1 / x.
var ReciprocalDef = unary("reciprocal", "y = 1 / x; infinite at 0.", 1, rounded[NoAttrs], ir.Range{Lo: 0.25, Hi: 8},
	func(x float64) float64 { return 1 / x })

// Reciprocal returns a node that computes 1 / x.
func Reciprocal(x *ir.Node) *ir.Node { return x.Graph.Add(ReciprocalDef, NoAttrs{}, x) }

var _ = lowerUnary(ReciprocalDef, func(x *ir.Node) *ir.Node { return Div(number(1, x), x) })

var _ = gradientUnary(ReciprocalDef, func(_, y *ir.Node, _ NoAttrs, dy *ir.Node) *ir.Node {
	return Neg(Mul(dy, Square(y)))
})
