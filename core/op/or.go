package op

import "github.com/rlx-go/rlx/core/ir"

// OrDef defines the disjunction of bools, and of each bit of integers.
var OrDef = binary(binarySpec{
	name:        "or",
	doc:         "z = a or b, of bools and of each bit of integers, with NumPy broadcast; both operands have the same element type.",
	asI32:       narrowIntsAndBool,
	commutative: true,
	tol:         exact[NoAttrs],
	integer:     func(a, b int64) int64 { return a | b },
	logical:     func(a, b bool) bool { return a || b },
})

// Or returns a node that computes the disjunction of bools, or of each bit of integers.
func Or(a, b *ir.Node) *ir.Node { return a.Graph.Add(OrDef, NoAttrs{}, a, b) }
