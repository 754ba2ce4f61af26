package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
)

// SqrtDef defines the square root.
var SqrtDef = unary("sqrt", "y = sqrt x; NaN below 0.", 1, rounded[NoAttrs], ir.Range{Lo: 0, Hi: 8},
	math.Sqrt)

// Sqrt returns a node that computes the square root.
func Sqrt(x *ir.Node) *ir.Node { return x.Graph.Add(SqrtDef, NoAttrs{}, x) }

var _ = gradientUnary(SqrtDef, func(_, y *ir.Node, _ NoAttrs, dy *ir.Node) *ir.Node {
	return Div(timesConst(dy, 0.5), y)
})
