package op

import "github.com/rlx-go/rlx/core/ir"

// LtDef defines a < b as bool.
var LtDef = compare(
	"lt", "z = a < b as bool, with NumPy broadcast; both operands have the same element type. False where either is NaN.",
	false,
	func(a, b float64) bool { return a < b }, func(a, b int64) bool { return a < b })

// Lt returns a node that computes a < b.
func Lt(a, b *ir.Node) *ir.Node { return a.Graph.Add(LtDef, NoAttrs{}, a, b) }
