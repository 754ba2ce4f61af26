package op

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// ReduceSumDef defines the sum over axes.
var ReduceSumDef = reduce(reduction{
	name:     "reduce_sum",
	doc:      "The sum over axes; 0 over nothing. Integers wrap.",
	tol:      summedAxes,
	float:    func(acc, x float64) float64 { return acc + x },
	integer:  func(acc, x int64) int64 { return acc + x },
	startInt: func(dtype.DType) int64 { return 0 },
})

// ReduceSum adds the sum over axes. If keepDims is set, the reduced axes stay, with size 1.
func ReduceSum(x *ir.Node, keepDims bool, axes ...int) *ir.Node {
	return addReduce(ReduceSumDef, x, keepDims, axes)
}

var _ = gradient(ReduceSumDef, func(n *ir.Node, a ReduceAttrs, dy *ir.Node) []*ir.Node {
	return []*ir.Node{a.spread(dy, n.In[0].Type.Shape)}
})
