package op

import "github.com/rlx-go/rlx/core/ir"

// EqDef defines a == b as bool.
var EqDef = compare(
	"eq", "z = a == b as bool, with NumPy broadcast; both operands have the same element type. NaN equals nothing.",
	true,
	func(a, b float64) bool { return a == b }, func(a, b int64) bool { return a == b })

// Eq returns a node that computes a == b.
func Eq(a, b *ir.Node) *ir.Node { return a.Graph.Add(EqDef, NoAttrs{}, a, b) }
