package op

import "github.com/rlx-go/rlx/core/ir"

// NegDef is -x.
var NegDef = unary("neg", "y = -x.", 1, exact[NoAttrs], wide,
	func(x float64) float64 { return -x })

// Neg adds -x.
func Neg(x *ir.Node) *ir.Node { return x.Graph.Add(NegDef, NoAttrs{}, x) }

var _ = lowerUnary(NegDef, func(x *ir.Node) *ir.Node { return Mul(x, number(-1, x)) })
