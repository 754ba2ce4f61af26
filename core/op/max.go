package op

import "github.com/rlx-go/rlx/core/ir"

// MaxDef defines the larger of a and b.
var MaxDef = binary(binarySpec{
	name:        "max",
	doc:         "z = the larger of a and b with NumPy broadcast; both operands have the same element type. NaN if either is NaN; which zero wins is open.",
	asI32:       narrowInts,
	commutative: true,
	tol:         exact[NoAttrs],
	float:       func(a, b float64) float64 { return max(a, b) },
	integer:     func(a, b int64) int64 { return max(a, b) },
})

// Max returns a node that computes the larger of a and b.
func Max(a, b *ir.Node) *ir.Node { return a.Graph.Add(MaxDef, NoAttrs{}, a, b) }

// Equal operands get half of the gradient each, as in PyTorch.
var _ = gradientBinary(MaxDef, func(a, b, _, dy *ir.Node) (da, db *ir.Node) {
	return extremeGradient(Gt(a, b), a, b, dy), extremeGradient(Lt(a, b), a, b, dy)
})
