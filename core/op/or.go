package op

import "github.com/rlx-go/rlx/core/ir"

// OrDef is a or b.
var OrDef = binary(binarySpec{
	name:        "or",
	doc:         "z = a or b, of bools and of each bit of integers, with NumPy broadcast; both operands have the same element type.",
	commutative: true,
	tol:         exact[NoAttrs],
	integer:     func(a, b int64) int64 { return a | b },
	logical:     func(a, b bool) bool { return a || b },
})

// Or adds a or b, of bools or bits.
func Or(a, b *ir.Node) *ir.Node { return a.Graph.Add(OrDef, NoAttrs{}, a, b) }
