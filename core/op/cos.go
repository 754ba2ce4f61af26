package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
)

// CosDef defines cos x.
var CosDef = unary("cos", "y = cos x, x in radians.", 8, rounded[NoAttrs], wide,
	math.Cos)

// Cos returns a node that computes cos x.
func Cos(x *ir.Node) *ir.Node { return x.Graph.Add(CosDef, NoAttrs{}, x) }

var _ = gradientUnary(CosDef, func(x, _ *ir.Node, _ NoAttrs, dy *ir.Node) *ir.Node {
	return Neg(Mul(dy, Sin(x)))
})
