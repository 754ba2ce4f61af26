package op

import "github.com/rlx-go/rlx/core/ir"

// IsnanDef tests whether x is NaN.
var IsnanDef = defineUnary(unarySpec[NoAttrs]{
	name: "isnan", flops: 1, tol: exact[NoAttrs], fill: wide, bools: true,
	doc:   "y = whether x is NaN, as bool.",
	float: plain(func(x float64) float64 { return float64(truth(x != x)) }),
})

// Isnan returns a node that tests whether x is NaN.
func Isnan(x *ir.Node) *ir.Node { return x.Graph.Add(IsnanDef, NoAttrs{}, x) }

var _ = lowerUnary(IsnanDef, func(x *ir.Node) *ir.Node { return Ne(x, x) })
