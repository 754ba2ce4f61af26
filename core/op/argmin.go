package op

import "github.com/rlx-go/rlx/core/ir"

// ArgMinDef defines the index of the smallest element along an axis.
var ArgMinDef = arg("argmin", "smallest", func(x, than float64) bool { return x < than }, func(x, than int64) bool {
	return x < than
})

// ArgMin adds the index, as i32, of the smallest element along axis. If keepDims is set, the axis stays, with size 1.
func ArgMin(x *ir.Node, axis int, keepDims bool) *ir.Node {
	return x.Graph.Add(ArgMinDef, ArgAttrs{Axis: fromEnd(axis, x), KeepDims: keepDims}, x)
}

// The index may be a float. It does not change where it has a derivative.
var _ = gradientZero(ArgMinDef)
