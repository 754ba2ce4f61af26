package op

import "github.com/rlx-go/rlx/core/ir"

// ReluDef defines max(x, 0).
var ReluDef = activation(defineUnary(unarySpec[NoAttrs]{
	name: "relu", flops: 1, tol: exact[NoAttrs], fill: wide,
	doc:     "y = max(x, 0); NaN stays NaN.",
	asI32:   narrowInts,
	float:   plain(func(x float64) float64 { return max(x, 0) }),
	integer: func(x int64) int64 { return max(x, 0) },
}))

// Relu returns a node that computes max(x, 0).
func Relu(x *ir.Node) *ir.Node { return x.Graph.Add(ReluDef, NoAttrs{}, x) }

var _ = lowerUnary(ReluDef, func(x *ir.Node) *ir.Node { return Max(x, number(0, x)) })

// The derivative at 0 is 0.
var _ = gradientUnary(ReluDef, func(x, _ *ir.Node, _ NoAttrs, dy *ir.Node) *ir.Node {
	return Where(Gt(x, number(0, x)), dy, number(0, x))
})
