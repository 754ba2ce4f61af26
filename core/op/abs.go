package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
)

// AbsDef is |x|.
var AbsDef = unary("abs", "y = |x|.", 1, exact[NoAttrs], wide,
	math.Abs)

// Abs adds |x|.
func Abs(x *ir.Node) *ir.Node { return x.Graph.Add(AbsDef, NoAttrs{}, x) }
