package op

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// ShiftRightDef defines a / 2^b rounded down, a shift to the right.
var ShiftRightDef = binary(binarySpec{
	name:        "shift_right",
	doc:         "z = a / 2^b of integers, rounded down, with NumPy broadcast; both operands have the same element type. Shifts by the width of the type or more, and negative ones, leave the sign: 0, or -1 of an a below 0.",
	asI32:       narrowInts,
	commutative: false,
	tol:         exact[NoAttrs],
	bits: func(d dtype.DType) func(a, b int64) int64 {
		return func(a, b int64) int64 { return a >> shiftBy(b, d) }
	},
	fill: []ir.Range{{Lo: 0, Hi: 100}, {Lo: 0, Hi: 9}},
})

// ShiftRight returns a node that computes a / 2^b rounded down, a shifted to the right by b bits.
func ShiftRight(a, b *ir.Node) *ir.Node { return a.Graph.Add(ShiftRightDef, NoAttrs{}, a, b) }
