package op

import "github.com/rlx-go/rlx/core/ir"

// GtDef is a > b as bool.
var GtDef = compare("gt", "z = a > b as bool, with NumPy broadcast; both operands have the same element type. False where either is NaN.", false,
	func(a, b float64) bool { return a > b }, func(a, b int64) bool { return a > b })

// Gt adds a > b.
func Gt(a, b *ir.Node) *ir.Node { return a.Graph.Add(GtDef, NoAttrs{}, a, b) }
