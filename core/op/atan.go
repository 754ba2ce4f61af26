package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
)

// AtanDef defines the arc tangent.
var AtanDef = unary("atan", "y = atan x in (-pi/2, pi/2).", 8, rounded[NoAttrs], wide,
	math.Atan)

// Atan returns a node that computes the arc tangent.
func Atan(x *ir.Node) *ir.Node { return x.Graph.Add(AtanDef, NoAttrs{}, x) }

var _ = gradientUnary(AtanDef, func(x, _ *ir.Node, _ NoAttrs, dy *ir.Node) *ir.Node {
	return Div(dy, plusConst(Square(x), 1))
})
