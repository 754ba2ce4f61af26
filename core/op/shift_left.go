package op

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// ShiftLeftDef defines a * 2^b, a shift to the left.
var ShiftLeftDef = binary(binarySpec{
	name:        "shift_left",
	doc:         "z = a * 2^b of integers, bits that leave the type being lost, with NumPy broadcast; both operands have the same element type. Shifts by the width of the type or more give 0, and so do negative ones.",
	asI32:       narrowInts,
	commutative: false,
	tol:         exact[NoAttrs],
	bits: func(d dtype.DType) func(a, b int64) int64 {
		return func(a, b int64) int64 { return a << shiftBy(b, d) }
	},
	fill: []ir.Range{{Lo: 0, Hi: 100}, {Lo: 0, Hi: 9}},
})

// ShiftLeft returns a node that computes a * 2^b, a shifted to the left by b bits.
func ShiftLeft(a, b *ir.Node) *ir.Node { return a.Graph.Add(ShiftLeftDef, NoAttrs{}, a, b) }

// shiftBy returns the number of bits to shift an int64 by: b, or 64 if b is negative or not less than the width of d. A
// shift by 64 gives 0 or, to the right, -1 for negative values.
func shiftBy(b int64, d dtype.DType) uint64 {
	if b < 0 || b >= int64(8*d.Size()) {
		return 64
	}
	return uint64(b)
}
