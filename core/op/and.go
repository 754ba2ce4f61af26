package op

import "github.com/rlx-go/rlx/core/ir"

// AndDef defines the conjunction of bools, and of each bit of integers.
var AndDef = binary(binarySpec{
	name:        "and",
	doc:         "z = a and b, of bools and of each bit of integers, with NumPy broadcast; both operands have the same element type.",
	asI32:       narrowIntsAndBool,
	unread:      []ir.Unread{{Operand: 0, By: 1, Value: false}, {Operand: 1, By: 0, Value: false}},
	commutative: true,
	tol:         exact[NoAttrs],
	integer:     func(a, b int64) int64 { return a & b },
	logical:     func(a, b bool) bool { return a && b },
})

// And returns a node that computes the conjunction of bools, or of each bit of integers.
func And(a, b *ir.Node) *ir.Node { return a.Graph.Add(AndDef, NoAttrs{}, a, b) }
