package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
)

// CeilDef defines the smallest integer that is not below x.
var CeilDef = discontinuous(
	unary("ceil", "y is the smallest integer that is not below x; -0.5 and -0 give -0.", 1, exact[NoAttrs], wide,
		math.Ceil))

// Ceil returns a node that computes the smallest integer that is not below x.
func Ceil(x *ir.Node) *ir.Node { return x.Graph.Add(CeilDef, NoAttrs{}, x) }

// The derivative is 0 wherever it exists.
var _ = gradientZero(CeilDef)
