package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
)

// RemainderDef defines the remainder with the dividend's sign.
var RemainderDef = discontinuous(binary(binarySpec{
	name:        "remainder",
	doc:         "z = a - b*trunc(a/b), exactly, with NumPy broadcast; both operands have the same element type. The sign is that of a, as with % in C and Go, and fmod; mod has the sign of b. Floats: NaN where b is 0 or a is infinite. Integers: a divisor of 0 is a run error.",
	asI32:       narrowInts,
	commutative: false,
	tol:         exact[NoAttrs],
	float:       math.Mod,
	integer: func(a, b int64) int64 {
		if b == -1 {
			return 0
		}
		return a % b
	},
	zero: "divisor",
	fill: []ir.Range{{Lo: -9, Hi: 9}, {Lo: 0.5, Hi: 3}},
}))

// Remainder returns a node that computes the remainder of a/b with the sign of a.
func Remainder(a, b *ir.Node) *ir.Node { return a.Graph.Add(RemainderDef, NoAttrs{}, a, b) }

// db is -dy times the integer quotient, which is computed from the result so that it fits it.
var _ = gradientBinary(RemainderDef, func(a, b, y, dy *ir.Node) (da, db *ir.Node) {
	return dy, Neg(Mul(dy, Round(Div(Sub(a, y), b))))
})
