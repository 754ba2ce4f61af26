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
