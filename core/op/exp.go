package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
)

// ExpDef defines e^x.
var ExpDef = unary("exp", "y = e^x; exp(-Inf) = 0, overflow gives +Inf.", 4, rounded[NoAttrs], wide,
	math.Exp)

// Exp returns a node that computes e^x.
func Exp(x *ir.Node) *ir.Node { return x.Graph.Add(ExpDef, NoAttrs{}, x) }

var _ = gradientUnary(ExpDef, func(_, y *ir.Node, _ NoAttrs, dy *ir.Node) *ir.Node { return Mul(dy, y) })
