package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
)

// LogDef defines the natural logarithm.
var LogDef = unary("log", "y = ln x; ln 0 = -Inf, NaN below 0.", 4, rounded[NoAttrs], ir.Range{Lo: 0.01, Hi: 8},
	math.Log)

// Log returns a node that computes the natural logarithm.
func Log(x *ir.Node) *ir.Node { return x.Graph.Add(LogDef, NoAttrs{}, x) }

var _ = gradientUnary(LogDef, func(x, _ *ir.Node, _ NoAttrs, dy *ir.Node) *ir.Node { return Div(dy, x) })
