package op

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/ir"
)

// ClampAttrs are the attributes of clamp.
type ClampAttrs struct {
	Max float64 `attr:"max"` // +Inf means no bound
	Min float64 `attr:"min"` // -Inf means no bound
}

// ClampDef limits x to a range.
var ClampDef = activation(defineUnary(unarySpec[ClampAttrs]{
	name: "clamp", flops: 2, tol: rounded[ClampAttrs], fill: wide,
	doc:   "y = min(max(x, min), max), so max where min is above it; NaN stays NaN. PyTorch and ONNX call it clamp, clip and hardtanh. Bounds that are computed, and integers: the ops max and min.",
	float: func(a ClampAttrs, x float64) float64 { return min(max(x, a.Min), a.Max) },
	with:  func(p Params) ClampAttrs { return ClampAttrs{p[0], p[1]} },
	check: func(a ClampAttrs) error {
		if math.IsNaN(a.Min) || math.IsNaN(a.Max) {
			return fmt.Errorf("bounds are %v and %v; want numbers", a.Min, a.Max)
		}
		return nil
	},
	attrs: []ClampAttrs{{Min: -1, Max: 1}, {Min: 0, Max: 6}, {Min: math.Inf(-1), Max: 2.5}, {Min: 3, Max: -1}},
}))

// Clamp returns a node that computes min(max(x, low), high).
func Clamp(x *ir.Node, low, high float64) *ir.Node {
	return x.Graph.Add(ClampDef, ClampAttrs{Min: low, Max: high}, x)
}

var _ = lowerWith(ClampDef, func(x *ir.Node, a ClampAttrs) *ir.Node {
	return Min(Max(x, number(a.Min, x)), number(a.Max, x))
})

// The gradient passes where x is within the bounds, the bounds included, as in PyTorch.
var _ = gradientUnary(ClampDef, func(x, _ *ir.Node, a ClampAttrs, dy *ir.Node) *ir.Node {
	return Where(And(Ge(x, number(a.Min, x)), Le(x, number(a.Max, x))), dy, number(0, x))
})
