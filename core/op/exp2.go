package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
)

// Exp2Def defines 2^x.
var Exp2Def = unary("exp2", "y = 2^x.", 4, rounded[NoAttrs], ir.Range{Lo: -6, Hi: 6},
	math.Exp2)

// Exp2 returns a node that computes 2^x.
func Exp2(x *ir.Node) *ir.Node { return x.Graph.Add(Exp2Def, NoAttrs{}, x) }

var _ = lowerUnary(Exp2Def, func(x *ir.Node) *ir.Node { return Exp(Mul(x, number(math.Ln2, x))) })
