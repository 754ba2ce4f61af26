package op

import (
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// ReduceMaxDef defines the maximum over axes.
var ReduceMaxDef = reduce(reduction{
	name:     "reduce_max",
	doc:      "The maximum over axes; NaN if any element is NaN. Over nothing it is -Inf, or the smallest integer.",
	tol:      exact[ReduceAttrs],
	start:    math.Inf(-1),
	float:    func(acc, x float64) float64 { return max(acc, x) },
	integer:  func(acc, x int64) int64 { return max(acc, x) },
	startInt: func(d dtype.DType) int64 { lo, _ := d.IntRange(); return lo },
})

// ReduceMax adds the maximum over axes. If keepDims is set, the reduced axes stay, with size 1.
func ReduceMax(x *ir.Node, keepDims bool, axes ...int) *ir.Node {
	return addReduce(ReduceMaxDef, x, keepDims, axes)
}

var _ = gradientUnary(ReduceMaxDef, reduceExtremeGradient)
