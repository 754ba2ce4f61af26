package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
)

// AbsDef defines |x|.
var AbsDef = defineUnary(unarySpec[NoAttrs]{
	name: "abs", flops: 1, tol: exact[NoAttrs], fill: wide,
	doc:     "y = |x|; integers wrap, so the smallest signed one stays.",
	asI32:   narrowInts,
	float:   plain(math.Abs),
	integer: func(x int64) int64 { return max(x, -x) },
})

// Abs returns a node that computes |x|.
func Abs(x *ir.Node) *ir.Node { return x.Graph.Add(AbsDef, NoAttrs{}, x) }

var _ = lowerUnary(AbsDef, func(x *ir.Node) *ir.Node {
	if isUnsigned(x) {
		return Max(x, number(0, x))
	}
	return Max(x, Neg(x))
})

var _ = gradientUnary(AbsDef, func(x, _ *ir.Node, _ NoAttrs, dy *ir.Node) *ir.Node {
	return Mul(dy, Sign(x))
})
