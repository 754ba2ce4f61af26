package op

import "github.com/rlx-go/rlx/core/ir"

// GtDef defines a > b as bool.
var GtDef = compare(
	"gt", "z = a > b as bool, with NumPy broadcast; both operands have the same element type. False where either is NaN.",
	false,
	func(a, b float64) bool { return a > b }, func(a, b int64) bool { return a > b })

// Gt returns a node that computes a > b.
func Gt(a, b *ir.Node) *ir.Node { return a.Graph.Add(GtDef, NoAttrs{}, a, b) }

var _ = ir.Lower(GtDef, func(_ *ir.Graph, _ *ir.Node, in []*ir.Node) *ir.Node { return Lt(in[1], in[0]) })
