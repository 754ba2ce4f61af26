package op

import "github.com/rlx-go/rlx/core/ir"

// SignDef defines the sign of x: -1, 0 or 1.
var SignDef = discontinuous(defineUnary(unarySpec[NoAttrs]{
	name: "sign", flops: 1, tol: exact[NoAttrs], fill: wide,
	doc:   "y = 1 above 0, -1 below, 0 at 0; NaN stays NaN.",
	asI32: narrowInts,
	float: plain(func(x float64) float64 {
		switch {
		case x > 0:
			return 1
		case x < 0:
			return -1
		}
		return x
	}),
	integer: func(x int64) int64 { return truth(x > 0) - truth(x < 0) },
}))

// Sign returns a node that computes the sign of x: -1, 0 or 1.
func Sign(x *ir.Node) *ir.Node { return x.Graph.Add(SignDef, NoAttrs{}, x) }

var _ = lowerUnary(SignDef, func(x *ir.Node) *ir.Node {
	if isUnsigned(x) {
		return Min(x, number(1, x))
	}
	return Where(Gt(x, number(0, x)), number(1, x), Where(Lt(x, number(0, x)), number(-1, x), x))
})

// isUnsigned reports whether x has an element type of integers that cannot be negative.
func isUnsigned(x *ir.Node) bool {
	if x.Type.DType.IsFloat() {
		return false
	}
	lo, _ := x.Type.DType.IntRange()
	return lo == 0
}

// The derivative is 0 wherever it exists.
var _ = gradientZero(SignDef)
