package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
)

// EluAttrs are the attributes of elu.
type EluAttrs struct {
	Alpha float64 `attr:"alpha"` // y at -Inf is -alpha
}

// EluDef defines the ELU.
var EluDef = activation(defineUnary(unarySpec[EluAttrs]{
	name: "elu", flops: 8, tol: rounded[EluAttrs], fill: wide,
	doc:   "y = x where x > 0, alpha*(e^x - 1) elsewhere: Clevert et al., Fast and Accurate Deep Network Learning by Exponential Linear Units (2015).",
	float: func(a EluAttrs, x float64) float64 { return eluOf(a.Alpha, x) },
	with:  func(p Params) EluAttrs { return EluAttrs{p[0]} },
	check: func(a EluAttrs) error { return isNumber("alpha", a.Alpha) },
	attrs: []EluAttrs{{1}, {0.5}, {-2}},
}))

// Elu returns a node that computes the ELU of x. The usual alpha is 1.
func Elu(x *ir.Node, alpha float64) *ir.Node {
	return x.Graph.Add(EluDef, EluAttrs{alpha}, x)
}

var _ = lowerWith(EluDef, func(x *ir.Node, a EluAttrs) *ir.Node {
	return Where(Gt(x, number(0, x)), x, Mul(Expm1(x), number(a.Alpha, x)))
})

func eluOf(alpha, x float64) float64 {
	if x > 0 {
		return x
	}
	return alpha * math.Expm1(x)
}

var _ = gradientUnary(EluDef, func(x, _ *ir.Node, a EluAttrs, dy *ir.Node) *ir.Node {
	return Where(Gt(x, number(0, x)), dy, Mul(dy, timesConst(Exp(x), a.Alpha)))
})
