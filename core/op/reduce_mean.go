package op

import "github.com/rlx-go/rlx/core/ir"

// ReduceMeanDef is the mean over axes.
var ReduceMeanDef = reduce(reduction{
	name:  "reduce_mean",
	doc:   "The sum over axes divided by the number of elements, floats only; NaN over nothing.",
	tol:   summedAxes,
	float: func(acc, x float64) float64 { return acc + x },
	mean:  true,
})

// ReduceMean adds the mean over axes; reduced axes stay with size 1 if keepDims is set.
func ReduceMean(x *ir.Node, keepDims bool, axes ...int) *ir.Node {
	return addReduce(ReduceMeanDef, x, keepDims, axes)
}
