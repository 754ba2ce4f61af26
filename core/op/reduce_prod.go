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

// The gradient of an element is dy times the product of the others: of those before it and those after it. That holds
// for elements of 0, too.
var _ = gradientUnary(ReduceProdDef, func(x, _ *ir.Node, a ReduceAttrs, dy *ir.Node) *ir.Node {
	shape := x.Type.Shape
	if len(a.Axes) == 0 {
		return dy
	}
	perm := append(others(len(shape), a.Axes), a.Axes...)
	inverse := make([]int, len(perm))
	for i, p := range perm {
		inverse[p] = i
	}
	moved := Transpose(x, perm...)
	split := len(shape) - len(a.Axes)
	line, _ := moved.Type.Shape[split:].Numel()
	lines := Reshape(moved, append(moved.Type.Shape[:split:split], line))
	before := x.Graph.Add(CumprodDef, ScanAttrs{Axis: split, Exclusive: true}, lines)
	after := x.Graph.Add(CumprodDef, ScanAttrs{Axis: split, Exclusive: true, Reverse: true}, lines)
	rest := Transpose(Reshape(Mul(before, after), moved.Type.Shape), inverse...)
	return Mul(a.spread(dy, shape), rest)
})
