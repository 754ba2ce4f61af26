package op

import "github.com/rlx-go/rlx/core/ir"

// MinDef defines the smaller of a and b.
var MinDef = binary(binarySpec{
	name:        "min",
	doc:         "z = the smaller of a and b with NumPy broadcast; both operands have the same element type. NaN if either is NaN; which zero wins is open.",
	asI32:       narrowInts,
	commutative: true,
	tol:         exact[NoAttrs],
	float:       func(a, b float64) float64 { return min(a, b) },
	integer:     func(a, b int64) int64 { return min(a, b) },
})

// Min returns a node that computes the smaller of a and b.
func Min(a, b *ir.Node) *ir.Node { return a.Graph.Add(MinDef, NoAttrs{}, a, b) }

// Equal operands get half of the gradient each, as in PyTorch.
var _ = gradientBinary(MinDef, func(a, b, _, dy *ir.Node) (da, db *ir.Node) {
	return extremeGradient(Lt(a, b), a, b, dy), extremeGradient(Gt(a, b), a, b, dy)
})
