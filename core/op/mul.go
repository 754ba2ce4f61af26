package op

import "github.com/rlx-go/rlx/core/ir"

// MulDef defines a * b.
var MulDef = binary(binarySpec{
	name:        "mul",
	doc:         "z = a * b with NumPy broadcast; both operands have the same element type. Integers wrap.",
	asI32:       narrowInts,
	commutative: true,
	tol:         rounded[NoAttrs],
	float:       func(a, b float64) float64 { return a * b },
	integer:     func(a, b int64) int64 { return a * b },
})

// Mul returns a node that computes a * b.
func Mul(a, b *ir.Node) *ir.Node { return a.Graph.Add(MulDef, NoAttrs{}, a, b) }

var _ = gradientBinary(MulDef, func(a, b, _, dy *ir.Node) (da, db *ir.Node) { return Mul(dy, b), Mul(dy, a) })
