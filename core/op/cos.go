package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
)

// CosDef is cos x.
var CosDef = unary("cos", "y = cos x, x in radians.", 8, rounded[NoAttrs], wide,
	math.Cos)

// Cos adds cos x.
func Cos(x *ir.Node) *ir.Node { return x.Graph.Add(CosDef, NoAttrs{}, x) }
