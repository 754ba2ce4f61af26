package op

import "github.com/rlx-go/rlx/core/ir"

// SubDef defines a - b.
var SubDef = binary(binarySpec{
	name:        "sub",
	doc:         "z = a - b with NumPy broadcast; both operands have the same element type. Integers wrap.",
	asI32:       narrowInts,
	commutative: false,
	tol:         rounded[NoAttrs],
	float:       func(a, b float64) float64 { return a - b },
	integer:     func(a, b int64) int64 { return a - b },
})

// Sub returns a node that computes a - b.
func Sub(a, b *ir.Node) *ir.Node { return a.Graph.Add(SubDef, NoAttrs{}, a, b) }

var _ = gradientBinary(SubDef, func(_, _, _, dy *ir.Node) (da, db *ir.Node) { return dy, Neg(dy) })
