package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
)

// Log2Def defines the logarithm to base 2.
var Log2Def = unary("log2", "y = log2 x; log2 0 = -Inf, NaN below 0.", 4, rounded[NoAttrs], ir.Range{Lo: 0.01, Hi: 8},
	math.Log2)

// Log2 returns a node that computes the logarithm to base 2.
func Log2(x *ir.Node) *ir.Node { return x.Graph.Add(Log2Def, NoAttrs{}, x) }

var _ = lowerUnary(Log2Def, func(x *ir.Node) *ir.Node { return Mul(Log(x), number(math.Log2E, x)) })

var _ = gradientUnary(Log2Def, func(x, _ *ir.Node, _ NoAttrs, dy *ir.Node) *ir.Node {
	return Div(dy, timesConst(x, math.Ln2))
})
