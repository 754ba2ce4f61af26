package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
)

// IsinfDef tests whether x is an infinity of either sign.
var IsinfDef = defineUnary(unarySpec[NoAttrs]{
	name: "isinf", flops: 1, tol: exact[NoAttrs], fill: wide, bools: true,
	doc:   "y = whether x is an infinity of either sign, as bool.",
	float: plain(func(x float64) float64 { return float64(truth(math.IsInf(x, 0))) }),
})

// Isinf returns a node that tests whether x is an infinity of either sign.
func Isinf(x *ir.Node) *ir.Node { return x.Graph.Add(IsinfDef, NoAttrs{}, x) }

var _ = lowerUnary(IsinfDef, func(x *ir.Node) *ir.Node { return Eq(Abs(x), number(math.Inf(1), x)) })
