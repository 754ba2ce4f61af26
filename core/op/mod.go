package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
)

// ModDef defines the remainder with the divisor's sign.
var ModDef = discontinuous(binary(binarySpec{
	name:        "mod",
	doc:         "z = a - b*floor(a/b) with NumPy broadcast; both operands have the same element type. The sign is that of b, as with % in Python and mod in NumPy; remainder has the sign of a. Floats: NaN where b is 0 or a is infinite, and the exact remainder is rounded once where b is added to it. Integers: a divisor of 0 is a run error.",
	asI32:       narrowInts,
	commutative: false,
	tol:         rounded[NoAttrs],
	float:       modOf,
	integer: func(a, b int64) int64 {
		if b == -1 {
			return 0
		}
		r := a % b
		if r != 0 && r < 0 != (b < 0) {
			r += b
		}
		return r
	},
	zero: "divisor",
	fill: []ir.Range{{Lo: -9, Hi: 9}, {Lo: 0.5, Hi: 3}},
}))

// Mod returns a node that computes the remainder of a/b with the sign of b.
func Mod(a, b *ir.Node) *ir.Node { return a.Graph.Add(ModDef, NoAttrs{}, a, b) }

func modOf(a, b float64) float64 {
	r := math.Mod(a, b)
	if r != 0 && r < 0 != (b < 0) {
		r += b
	}
	return r
}

var _ = ir.Lower(ModDef, func(_ *ir.Graph, _ *ir.Node, in []*ir.Node) *ir.Node {
	r, b := Remainder(in[0], in[1]), in[1]
	zero := number(0, r)
	moves := And(Ne(r, zero), Ne(Lt(r, zero), Lt(b, zero)))
	return Where(moves, Add(r, b), r)
})

// db is -dy times the integer quotient, which is computed from the result so that it fits it.
var _ = gradientBinary(ModDef, func(a, b, y, dy *ir.Node) (da, db *ir.Node) {
	return dy, Neg(Mul(dy, Round(Div(Sub(a, y), b))))
})
