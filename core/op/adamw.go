package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
)

// AdamWDef defines a step of AdamW.
var AdamWDef = optimizer{
	name: "adamw",
	doc: "A step of AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101), with the bias correction of arXiv:1412.6980. p, m and v are " +
		"states, which it updates in place, g is the gradient of p, all f32 of one shape with axes, and numbers is f32[9]: s, a, l, e, k1, t1, k2, t2, c. " +
		"With h = s*g: m = k1*m + t1*h; v = k2*v + t2*h*h; p = (p - l*p) - a*m/(sqrt(c*v) + e), with the new m and v. Usually " +
		"t1 = 1 - k1 and t2 = 1 - k2 for the decay rates k1 and k2 of the moments, a = rate/(1 - k1^t) at step t, c = 1/(1 - k2^t), l = rate*weight_decay, " +
		"and s clips the gradient.",
	states:  []string{"p", "m", "v"},
	numbers: []string{"s", "a", "l", "e", "k1", "t1", "k2", "t2", "c"},
	flops:   15,
	step: func(x []float64, g float64, n []float64) {
		h := n[0] * g
		x[1] = n[4]*x[1] + n[5]*h
		x[2] = n[6]*x[2] + n[7]*(h*h)
		x[0] = x[0] - n[2]*x[0] - n[1]*x[1]/(math.Sqrt(n[8]*x[2])+n[3])
	},
	fill: []ir.Range{{Lo: -2, Hi: 2}, {Lo: -1, Hi: 1}, {Lo: 0, Hi: 2}, {Lo: -2, Hi: 2}},
}.define()

// AdamWNumbers are the numbers of a step of AdamW, f32 without axes.
type AdamWNumbers struct{ Scale, StepSize, Decay, Epsilon, Keep1, Take1, Keep2, Take2, Scale2 *ir.Node }

// AdamW adds a step of AdamW that updates the states p, m and v by the gradient g of p, and returns their new values.
func AdamW(p, m, v, g *ir.Node, n AdamWNumbers) []*ir.Node {
	numbers := Stack(0, n.Scale, n.StepSize, n.Decay, n.Epsilon, n.Keep1, n.Take1, n.Keep2, n.Take2, n.Scale2)
	return p.Graph.AddResults(3, AdamWDef, NoAttrs{}, p, m, v, g, numbers)
}

var _ = ir.LowerTuple(AdamWDef, func(_ *ir.Graph, _ *ir.Node, in []*ir.Node) []*ir.Node {
	p, m, v := in[0], in[1], in[2]
	n := optimizerNumbers(in[4])
	g := Mul(in[3], n[0])
	mean := Add(Mul(m, n[4]), Mul(g, n[5]))
	square := Add(Mul(v, n[6]), Mul(Mul(g, g), n[7]))
	by := Div(Mul(mean, n[1]), Add(Sqrt(Mul(square, n[8])), n[3]))
	return assigned(in[:3], Sub(Sub(p, Mul(p, n[2])), by), mean, square)
})

var _ = ir.Gradient(AdamWDef, noOptimizerGradient)
