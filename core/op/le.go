package op

import "github.com/rlx-go/rlx/core/ir"

// LeDef defines a <= b as bool.
var LeDef = compare(
	"le", "z = a <= b as bool, with NumPy broadcast; both operands have the same element type. False where either is NaN.",
	false,
	func(a, b float64) bool { return a <= b }, func(a, b int64) bool { return a <= b })

// Le returns a node that computes a <= b.
func Le(a, b *ir.Node) *ir.Node { return a.Graph.Add(LeDef, NoAttrs{}, a, b) }
