package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
)

// SinDef defines sin x.
var SinDef = unary("sin", "y = sin x, x in radians.", 8, rounded[NoAttrs], wide,
	math.Sin)

// Sin returns a node that computes sin x.
func Sin(x *ir.Node) *ir.Node { return x.Graph.Add(SinDef, NoAttrs{}, x) }

var _ = gradientUnary(SinDef, func(x, _ *ir.Node, _ NoAttrs, dy *ir.Node) *ir.Node {
	return Mul(dy, Cos(x))
})
