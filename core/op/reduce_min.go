package op

import (
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// ReduceMinDef defines the minimum over axes.
var ReduceMinDef = reduce(reduction{
	name:     "reduce_min",
	doc:      "The minimum over axes; NaN if any element is NaN. Over nothing it is +Inf, or the largest integer.",
	tol:      exact[ReduceAttrs],
	start:    math.Inf(1),
	float:    func(acc, x float64) float64 { return min(acc, x) },
	integer:  func(acc, x int64) int64 { return min(acc, x) },
	startInt: func(d dtype.DType) int64 { _, hi := d.IntRange(); return hi },
})

// ReduceMin adds the minimum over axes. If keepDims is set, the reduced axes stay, with size 1.
func ReduceMin(x *ir.Node, keepDims bool, axes ...int) *ir.Node {
	return addReduce(ReduceMinDef, x, keepDims, axes)
}

var _ = gradientUnary(ReduceMinDef, reduceExtremeGradient)
