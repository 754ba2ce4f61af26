package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
)

// CeluAttrs are the attributes of celu.
type CeluAttrs struct {
	Alpha float64 `attr:"alpha"` // y at -Inf is -alpha
}

// CeluDef defines the CELU.
var CeluDef = activation(defineUnary(unarySpec[CeluAttrs]{
	name: "celu", flops: 9, tol: rounded[CeluAttrs], fill: wide,
	doc: "y = max(x, 0) + min(alpha*(e^(x/alpha) - 1), 0), alpha above 0: Barron, Continuously Differentiable Exponential Linear Units (2017).",
	float: func(a CeluAttrs, x float64) float64 {
		if x > 0 {
			return x
		}
		return a.Alpha * math.Expm1(x/a.Alpha)
	},
	with:  func(p Params) CeluAttrs { return CeluAttrs{p[0]} },
	check: func(a CeluAttrs) error { return isPositive("alpha", a.Alpha) },
	attrs: []CeluAttrs{{1}, {0.5}, {3}},
}))

// Celu returns a node that computes the CELU of x.
func Celu(x *ir.Node, alpha float64) *ir.Node {
	return x.Graph.Add(CeluDef, CeluAttrs{alpha}, x)
}

var _ = lowerWith(CeluDef, func(x *ir.Node, a CeluAttrs) *ir.Node {
	return Where(Gt(x, number(0, x)), x, Mul(Expm1(Mul(x, number(1/a.Alpha, x))), number(a.Alpha, x)))
})

var _ = gradientUnary(CeluDef, func(x, _ *ir.Node, a CeluAttrs, dy *ir.Node) *ir.Node {
	return Where(Gt(x, number(0, x)), dy, Mul(dy, Exp(timesConst(x, 1/a.Alpha))))
})
