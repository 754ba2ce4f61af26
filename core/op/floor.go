package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
)

// FloorDef defines the largest integer that is not above x.
var FloorDef = discontinuous(
	unary("floor", "y is the largest integer that is not above x; -0 stays -0.", 1, exact[NoAttrs], wide,
		math.Floor))

// Floor returns a node that computes the largest integer that is not above x.
func Floor(x *ir.Node) *ir.Node { return x.Graph.Add(FloorDef, NoAttrs{}, x) }

// The derivative is 0 wherever it exists.
var _ = gradientZero(FloorDef)
