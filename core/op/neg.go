package op

import "github.com/rlx-go/rlx/core/ir"

// NegDef defines -x.
var NegDef = defineUnary(unarySpec[NoAttrs]{
	name: "neg", flops: 1, tol: exact[NoAttrs], fill: wide,
	doc:     "y = -x; integers wrap, so the smallest one is its own.",
	asI32:   narrowInts,
	float:   plain(func(x float64) float64 { return -x }),
	integer: func(x int64) int64 { return -x },
})

// Neg returns a node that computes -x.
func Neg(x *ir.Node) *ir.Node { return x.Graph.Add(NegDef, NoAttrs{}, x) }

var _ = lowerUnary(NegDef, func(x *ir.Node) *ir.Node {
	if x.Type.DType.IsInt() {
		return Sub(number(0, x), x)
	}
	return Mul(x, number(-1, x))
})

var _ = gradientUnary(NegDef, func(_, _ *ir.Node, _ NoAttrs, dy *ir.Node) *ir.Node { return Neg(dy) })
