package op

import "github.com/rlx-go/rlx/core/ir"

// AddDef defines a + b.
var AddDef = binary(binarySpec{
	name:        "add",
	doc:         "z = a + b with NumPy broadcast; both operands have the same element type. Integers wrap.",
	asI32:       narrowInts,
	commutative: true,
	tol:         rounded[NoAttrs],
	float:       func(a, b float64) float64 { return a + b },
	integer:     func(a, b int64) int64 { return a + b },
})

// Add returns a node that computes a + b.
func Add(a, b *ir.Node) *ir.Node { return a.Graph.Add(AddDef, NoAttrs{}, a, b) }

var _ = gradientBinary(AddDef, func(_, _, _, dy *ir.Node) (da, db *ir.Node) { return dy, dy })
