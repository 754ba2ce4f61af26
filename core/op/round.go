package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
)

// RoundDef defines the nearest integer, ties to even.
var RoundDef = discontinuous(
	unary(
		"round",
		"y is the integer nearest to x; halves go to the even neighbour (0.5 and -0.5 give 0 and -0, 2.5 gives 2).", 1,
		exact[NoAttrs], wide,
		math.RoundToEven))

// Round returns a node that computes the nearest integer, ties to even.
func Round(x *ir.Node) *ir.Node { return x.Graph.Add(RoundDef, NoAttrs{}, x) }

// The derivative is 0 wherever it exists.
var _ = gradientZero(RoundDef)
