package op

import "github.com/rlx-go/rlx/core/ir"

// ReduceMeanDef defines the mean over axes.
var ReduceMeanDef = reduce(reduction{
	name:  "reduce_mean",
	doc:   "The sum over axes divided by the number of elements, floats only; NaN over nothing.",
	tol:   summedAxes,
	float: func(acc, x float64) float64 { return acc + x },
	mean:  true,
})

// ReduceMean adds the mean over axes. If keepDims is set, the reduced axes stay, with size 1.
func ReduceMean(x *ir.Node, keepDims bool, axes ...int) *ir.Node {
	return addReduce(ReduceMeanDef, x, keepDims, axes)
}

var _ = ir.Lower(ReduceMeanDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	a := n.Attrs.(ReduceAttrs)
	sum := ReduceSum(in[0], a.KeepDims, a.Axes...)
	return Div(sum, a.count(in[0], sum))
})

var _ = gradient(ReduceMeanDef, func(n *ir.Node, a ReduceAttrs, dy *ir.Node) []*ir.Node {
	x := n.In[0]
	return []*ir.Node{a.spread(Div(dy, a.count(x, dy)), x.Type.Shape)}
})
