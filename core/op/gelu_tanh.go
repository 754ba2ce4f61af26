package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
)

// GeluTanhDef defines the tanh form of GELU.
var GeluTanhDef = activation(
	unary(
		"gelu_tanh",
		"y = x/2 * (1 + tanh(u)), u = sqrt(2/pi) * (x + 0.044715*x^3): the tanh form of GELU. Large x give x, large negative x give 0.",
		12, rounded[NoAttrs], wide,
		geluTanhOf))

// GeluTanh returns a node that computes the tanh form of GELU.
func GeluTanh(x *ir.Node) *ir.Node { return x.Graph.Add(GeluTanhDef, NoAttrs{}, x) }

var _ = lowerUnary(GeluTanhDef, func(x *ir.Node) *ir.Node {
	cube := Mul(Mul(x, x), x)
	u := Mul(Add(x, Mul(cube, number(0.044715, x))), number(math.Sqrt(2/math.Pi), x))
	return Mul(Mul(x, number(0.5, x)), Add(Tanh(u), number(1, x)))
})

// geluTanhOf writes (1 + tanh t)/2 as the sigmoid of 2t, which has no cancellation where tanh t is near -1.
func geluTanhOf(x float64) float64 { return x * sigmoidOf(2*math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)) }

// y = x s with s = sigmoid(2u), so the derivative is s + x s (1 - s) 2u'.
var _ = gradientUnary(GeluTanhDef, func(x, _ *ir.Node, _ NoAttrs, dy *ir.Node) *ir.Node {
	c := 2 * math.Sqrt(2/math.Pi)
	square := Square(x)
	s := Sigmoid(Mul(x, plusConst(timesConst(square, c*0.044715), c)))
	slope := plusConst(timesConst(square, 3*c*0.044715), c)
	return Mul(dy, Mul(s, plusConst(Mul(Mul(x, constMinus(1, s)), slope), 1)))
})
