package op

import "github.com/rlx-go/rlx/core/ir"

// SGDDef defines a step of gradient descent.
var SGDDef = optimizer{
	name: "sgd",
	doc: "A step of gradient descent with momentum (Sutskever et al. 2013). p and m are states, which it updates in place, g is the gradient of p, all " +
		"f32 of one shape with axes, and numbers is f32[4]: s, a, l, k. m = k*m + s*g; p = (p - l*p) - a*m, with the new m. a is the rate, k the momentum, l the " +
		"rate times the weight decay, and s clips the gradient.",
	states:  []string{"p", "m"},
	numbers: []string{"s", "a", "l", "k"},
	flops:   7,
	step: func(x []float64, g float64, n []float64) {
		x[1] = n[3]*x[1] + n[0]*g
		x[0] = x[0] - n[2]*x[0] - n[1]*x[1]
	},
	fill: []ir.Range{{Lo: -2, Hi: 2}, {Lo: -1, Hi: 1}, {Lo: -2, Hi: 2}},
}.define()

// SGD adds a step of gradient descent that updates the states p and m by the gradient g of p, and returns their new
// values. scale multiplies the gradient; the numbers are f32 without axes.
func SGD(p, m, g, scale, stepSize, decay, momentum *ir.Node) []*ir.Node {
	return p.Graph.AddResults(2, SGDDef, NoAttrs{}, p, m, g, Stack(0, scale, stepSize, decay, momentum))
}

var _ = ir.LowerTuple(SGDDef, func(_ *ir.Graph, _ *ir.Node, in []*ir.Node) []*ir.Node {
	p, m := in[0], in[1]
	n := optimizerNumbers(in[3])
	velocity := Add(Mul(m, n[3]), Mul(in[2], n[0]))
	return assigned(in[:2], Sub(Sub(p, Mul(p, n[2])), Mul(velocity, n[1])), velocity)
})

var _ = ir.Gradient(SGDDef, noOptimizerGradient)
