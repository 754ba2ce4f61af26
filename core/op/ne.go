package op

import "github.com/rlx-go/rlx/core/ir"

// NeDef defines a != b as bool.
var NeDef = compare(
	"ne", "z = a != b as bool, with NumPy broadcast; both operands have the same element type. NaN differs from everything, itself included.",
	true,
	func(a, b float64) bool { return a != b }, func(a, b int64) bool { return a != b })

// Ne returns a node that computes a != b.
func Ne(a, b *ir.Node) *ir.Node { return a.Graph.Add(NeDef, NoAttrs{}, a, b) }
