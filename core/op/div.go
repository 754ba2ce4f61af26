package op

import "github.com/rlx-go/rlx/core/ir"

// DivDef defines a / b.
var DivDef = binary(binarySpec{
	name:        "div",
	doc:         "z = a / b with NumPy broadcast; both operands have the same element type. Floats follow IEEE 754 (x/0 is infinite or NaN). Integers truncate toward zero; dividing by 0 is a run error.",
	asI32:       narrowInts,
	commutative: false,
	tol:         rounded[NoAttrs],
	float:       func(a, b float64) float64 { return a / b },
	integer:     func(a, b int64) int64 { return a / b },
	zero:        "divisor",
	fill:        []ir.Range{{Lo: -2, Hi: 2}, {Lo: 0.5, Hi: 2}},
})

// Div returns a node that computes a / b.
func Div(a, b *ir.Node) *ir.Node { return a.Graph.Add(DivDef, NoAttrs{}, a, b) }

var _ = gradientBinary(DivDef, func(_, b, y, dy *ir.Node) (da, db *ir.Node) {
	da = Div(dy, b)
	return da, Neg(Mul(da, y))
})
