package op

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// AllDef defines the conjunction over axes.
var AllDef = reduce(reduction{
	name:     "all",
	doc:      "Whether all elements over axes are true, of bools; true over nothing.",
	tol:      exact[ReduceAttrs],
	bools:    true,
	integer:  func(acc, x int64) int64 { return min(acc, x) },
	startInt: func(dtype.DType) int64 { return 1 },
})

// All adds the conjunction over axes. If keepDims is set, the reduced axes stay, with size 1.
func All(x *ir.Node, keepDims bool, axes ...int) *ir.Node {
	return addReduce(AllDef, x, keepDims, axes)
}
