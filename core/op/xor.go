package op

import "github.com/rlx-go/rlx/core/ir"

// XorDef defines the exclusive disjunction of bools, and of each bit of integers.
var XorDef = binary(binarySpec{
	name:        "xor",
	doc:         "z = either a or b, of bools and of each bit of integers, with NumPy broadcast; both operands have the same element type.",
	asI32:       narrowIntsAndBool,
	commutative: true,
	tol:         exact[NoAttrs],
	integer:     func(a, b int64) int64 { return a ^ b },
	logical:     func(a, b bool) bool { return a != b },
})

// Xor returns a node that computes the exclusive disjunction of bools, or of each bit of integers.
func Xor(a, b *ir.Node) *ir.Node { return a.Graph.Add(XorDef, NoAttrs{}, a, b) }
