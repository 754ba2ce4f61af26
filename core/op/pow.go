package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
)

// PowDef defines a^b.
var PowDef = binary(binarySpec{
	name:        "pow",
	doc:         "z = a^b as in C99's pow, floats only, with NumPy broadcast; both operands have the same element type. pow(x, 0) = 1; a negative base needs an integral exponent, otherwise NaN.",
	commutative: false,
	tol:         rounded[NoAttrs],
	float:       math.Pow,
	fill:        []ir.Range{{Lo: 0.1, Hi: 3}, {Lo: -2, Hi: 2}},
})

// Pow returns a node that computes a^b.
func Pow(a, b *ir.Node) *ir.Node { return a.Graph.Add(PowDef, NoAttrs{}, a, b) }

// da = dy b a^(b-1), which is 0 for an exponent of 0; db = dy a^b ln a, which is 0 for a base of 0 and b >= 0.
var _ = gradientBinary(PowDef, func(a, b, y, dy *ir.Node) (da, db *ir.Node) {
	zero := number(0, a)
	da = Where(Eq(b, zero), zero, Mul(dy, Mul(b, Pow(a, plusConst(b, -1)))))
	db = Where(And(Eq(a, zero), Ge(b, zero)), zero, Mul(dy, Mul(y, Log(a))))
	return da, db
})
