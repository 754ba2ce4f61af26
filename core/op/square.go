package op

import "github.com/rlx-go/rlx/core/ir"

// SquareDef defines x*x.
var SquareDef = defineUnary(unarySpec[NoAttrs]{
	name: "square", flops: 1, tol: rounded[NoAttrs], fill: wide,
	doc:     "y = x*x; integers wrap.",
	asI32:   narrowInts,
	float:   plain(func(x float64) float64 { return x * x }),
	integer: func(x int64) int64 { return x * x },
})

// Square returns a node that computes x*x.
func Square(x *ir.Node) *ir.Node { return x.Graph.Add(SquareDef, NoAttrs{}, x) }

var _ = lowerUnary(SquareDef, func(x *ir.Node) *ir.Node { return Mul(x, x) })

var _ = gradientUnary(SquareDef, func(x, _ *ir.Node, _ NoAttrs, dy *ir.Node) *ir.Node {
	return Mul(dy, timesConst(x, 2))
})
