package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
)

// IsfiniteDef tests whether x is neither NaN nor infinite.
var IsfiniteDef = defineUnary(unarySpec[NoAttrs]{
	name: "isfinite", flops: 1, tol: exact[NoAttrs], fill: wide, bools: true,
	doc:   "y = whether x is neither NaN nor infinite, as bool.",
	float: plain(func(x float64) float64 { return float64(truth(x-x == 0)) }),
})

// Isfinite returns a node that tests whether x is neither NaN nor infinite.
func Isfinite(x *ir.Node) *ir.Node { return x.Graph.Add(IsfiniteDef, NoAttrs{}, x) }

var _ = lowerUnary(IsfiniteDef, func(x *ir.Node) *ir.Node { return Lt(Abs(x), number(math.Inf(1), x)) })
