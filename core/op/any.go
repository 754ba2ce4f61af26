package op

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// AnyDef defines the disjunction over axes.
var AnyDef = reduce(reduction{
	name:     "any",
	doc:      "Whether any element over axes is true, of bools; false over nothing.",
	tol:      exact[ReduceAttrs],
	bools:    true,
	integer:  func(acc, x int64) int64 { return max(acc, x) },
	startInt: func(dtype.DType) int64 { return 0 },
})

// Any adds the disjunction over axes. If keepDims is set, the reduced axes stay, with size 1.
func Any(x *ir.Node, keepDims bool, axes ...int) *ir.Node {
	return addReduce(AnyDef, x, keepDims, axes)
}
