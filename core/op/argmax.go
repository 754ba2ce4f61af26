package op

import "github.com/rlx-go/rlx/core/ir"

// ArgMaxDef defines the index of the largest element along an axis.
var ArgMaxDef = arg("argmax", "largest", func(x, than float64) bool { return x > than }, func(x, than int64) bool {
	return x > than
})

// ArgMax adds the index, as i32, of the largest element along axis. If keepDims is set, the axis stays, with size 1.
func ArgMax(x *ir.Node, axis int, keepDims bool) *ir.Node {
	return x.Graph.Add(ArgMaxDef, ArgAttrs{Axis: fromEnd(axis, x), KeepDims: keepDims}, x)
}

// The index may be a float. It does not change where it has a derivative.
var _ = gradientZero(ArgMaxDef)
