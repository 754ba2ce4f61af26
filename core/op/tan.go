package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
)

// TanDef defines tan x.
var TanDef = unary("tan", "y = tan x, x in radians.", 10, rounded[NoAttrs], ir.Range{Lo: -1.2, Hi: 1.2},
	math.Tan)

// Tan returns a node that computes tan x.
func Tan(x *ir.Node) *ir.Node { return x.Graph.Add(TanDef, NoAttrs{}, x) }

var _ = lowerUnary(TanDef, func(x *ir.Node) *ir.Node { return Div(Sin(x), Cos(x)) })

var _ = gradientUnary(TanDef, func(_, y *ir.Node, _ NoAttrs, dy *ir.Node) *ir.Node {
	return Mul(dy, plusConst(Square(y), 1))
})
