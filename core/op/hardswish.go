package op

import "github.com/rlx-go/rlx/core/ir"

// HardswishDef defines x * hardsigmoid(x).
var HardswishDef = activation(
	unary("hardswish", "y = x * min(max(x/6 + 1/2, 0), 1): Howard et al., Searching for MobileNetV3 (2019).", 4,
		rounded[NoAttrs], wide,
		func(x float64) float64 { return x * hardsigmoidOf(HardsigmoidAttrs{1. / 6, 0.5}, x) }))

// Hardswish returns a node that computes x * hardsigmoid(x).
func Hardswish(x *ir.Node) *ir.Node { return x.Graph.Add(HardswishDef, NoAttrs{}, x) }

var _ = lowerUnary(HardswishDef, func(x *ir.Node) *ir.Node { return Mul(x, Hardsigmoid(x, 1./6, 0.5)) })

var _ = gradientUnary(HardswishDef, func(x, _ *ir.Node, _ NoAttrs, dy *ir.Node) *ir.Node {
	inner := Where(Gt(x, number(-3, x)), Mul(dy, plusConst(timesConst(x, 1./3), 0.5)), number(0, x))
	return Where(Lt(x, number(3, x)), inner, dy)
})
