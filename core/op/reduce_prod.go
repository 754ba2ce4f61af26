package op

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// ReduceProdDef defines the product over axes.
var ReduceProdDef = reduce(reduction{
	name:     "reduce_prod",
	doc:      "The product over axes; 1 over nothing. Integers wrap.",
	tol:      summedAxes,
	start:    1,
	float:    func(acc, x float64) float64 { return acc * x },
	integer:  func(acc, x int64) int64 { return acc * x },
	startInt: func(dtype.DType) int64 { return 1 },
	fill:     nearOne,
})

// ReduceProd adds the product over axes. If keepDims is set, the reduced axes stay, with size 1.
func ReduceProd(x *ir.Node, keepDims bool, axes ...int) *ir.Node {
	return addReduce(ReduceProdDef, x, keepDims, axes)
}
