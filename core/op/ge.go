package op

import "github.com/rlx-go/rlx/core/ir"

// GeDef defines a >= b as bool.
var GeDef = compare(
	"ge", "z = a >= b as bool, with NumPy broadcast; both operands have the same element type. False where either is NaN.",
	false,
	func(a, b float64) bool { return a >= b }, func(a, b int64) bool { return a >= b })

// Ge returns a node that computes a >= b.
func Ge(a, b *ir.Node) *ir.Node { return a.Graph.Add(GeDef, NoAttrs{}, a, b) }

var _ = ir.Lower(GeDef, func(_ *ir.Graph, _ *ir.Node, in []*ir.Node) *ir.Node { return Le(in[1], in[0]) })
