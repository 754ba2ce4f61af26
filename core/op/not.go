package op

import "github.com/rlx-go/rlx/core/ir"

// NotDef defines the negation of bools, and of each bit of integers.
var NotDef = defineUnary(unarySpec[NoAttrs]{
	name: "not", flops: 1, tol: exact[NoAttrs],
	doc:     "y = not x: of bool the other value, of integers all bits turned (-1 - x).",
	asI32:   narrowInts, // not bool: as integers, not 0 and not 1 are both not 0
	integer: func(x int64) int64 { return ^x },
	logical: func(x bool) bool { return !x },
})

// Not returns a node that computes the negation of bools, or of each bit of integers.
func Not(x *ir.Node) *ir.Node { return x.Graph.Add(NotDef, NoAttrs{}, x) }

var _ = lowerUnary(NotDef, func(x *ir.Node) *ir.Node {
	if x.Type.DType.IsInt() {
		return Sub(Neg(x), number(1, x))
	}
	return Eq(x, number(0, x))
})
