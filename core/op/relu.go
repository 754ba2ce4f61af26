package op

import "github.com/rlx-go/rlx/core/ir"

// ReluDef is max(x, 0).
var ReluDef = activation(unary("relu", "y = max(x, 0); NaN stays NaN.", 1, exact[NoAttrs], wide,
	func(x float64) float64 { return max(x, 0) }))

// Relu adds max(x, 0).
func Relu(x *ir.Node) *ir.Node { return x.Graph.Add(ReluDef, NoAttrs{}, x) }

var _ = lowerUnary(ReluDef, func(x *ir.Node) *ir.Node { return Max(x, number(0, x)) })
