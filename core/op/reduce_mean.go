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
	count, one := ir.Static(1), make(ir.Shape, n.In[0].Type.Rank())
	for i := range one {
		one[i] = ir.Static(1)
	}
	for _, axis := range a.Axes {
		one[axis] = in[0].Type.Shape[axis]
		count, _ = count.Mul(one[axis])
	}
	if one.IsStatic() {
		return Div(sum, number(float64(count.Const), sum))
	}
	// The sizes are known only at run time, so count the elements.
	ones := ReduceSum(Expand(number(1, sum), one), false, a.Axes...)
	return Div(sum, Reshape(ones, ir.Shape{}))
})
