package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
)

// TanhDef defines tanh x.
var TanhDef = activation(
	unary("tanh", "y = tanh x; it must reach -1 and 1 for large |x| without NaN.", 6, rounded[NoAttrs], wide,
		math.Tanh))

// Tanh returns a node that computes tanh x.
func Tanh(x *ir.Node) *ir.Node { return x.Graph.Add(TanhDef, NoAttrs{}, x) }

var _ = gradientUnary(TanhDef, func(_, y *ir.Node, _ NoAttrs, dy *ir.Node) *ir.Node {
	return Mul(dy, constMinus(1, Square(y)))
})
