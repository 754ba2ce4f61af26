package op

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/ir"
)

// SoftplusAttrs are the attributes of softplus.
type SoftplusAttrs struct {
	Beta      float64 `attr:"beta"`      // usually 1
	Threshold float64 `attr:"threshold"` // usually 20; +Inf means no threshold
}

// SoftplusDef defines ln(1 + e^x), a smooth max(x, 0).
var SoftplusDef = activation(defineUnary(unarySpec[SoftplusAttrs]{
	name: "softplus", flops: 10, tol: rounded[SoftplusAttrs], fill: wide,
	doc: "y = ln(1 + e^(beta*x))/beta, and x where beta*x > threshold; beta is above 0.",
	float: func(a SoftplusAttrs, x float64) float64 {
		t := a.Beta * x
		if t > a.Threshold {
			return x
		}
		return (max(t, 0) + math.Log1p(math.Exp(-math.Abs(t)))) / a.Beta
	},
	with: func(p Params) SoftplusAttrs { return SoftplusAttrs{p[0], p[1]} },
	check: func(a SoftplusAttrs) error {
		if math.IsNaN(a.Threshold) {
			return fmt.Errorf("threshold is NaN; want a number")
		}
		return isPositive("beta", a.Beta)
	},
	attrs: []SoftplusAttrs{{1, 20}, {2, 20}, {0.5, math.Inf(1)}},
}))

// Softplus returns a node that computes ln(1 + e^(beta*x))/beta, and x where beta*x is above the threshold.
func Softplus(x *ir.Node, beta, threshold float64) *ir.Node {
	return x.Graph.Add(SoftplusDef, SoftplusAttrs{beta, threshold}, x)
}

var _ = lowerWith(SoftplusDef, func(x *ir.Node, a SoftplusAttrs) *ir.Node {
	// ln(1 + e^t) = max(t, 0) + ln(1 + e^-|t|), which cannot overflow.
	t := Mul(x, number(a.Beta, x))
	y := Add(Relu(t), Log1p(Exp(Neg(Abs(t)))))
	return Where(Gt(t, number(a.Threshold, x)), x, Mul(y, number(1/a.Beta, x)))
})

var _ = gradientUnary(SoftplusDef, func(x, _ *ir.Node, a SoftplusAttrs, dy *ir.Node) *ir.Node {
	return Where(Gt(timesConst(x, a.Beta), number(a.Threshold, x)), dy, Mul(dy, Sigmoid(timesConst(x, a.Beta))))
})
