package op

import (
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// CummaxDef defines the running maximum along an axis.
var CummaxDef = scan(reduction{
	name: "cummax",
	doc: "The running maximum along an axis: y_i is the maximum of x_0 to x_i, of x_0 to x_{i-1} with exclusive, which begins with -Inf, or the " +
		"least integer of the type. Reverse goes from the last element to the first. NaN stays NaN from where it stands on.",
	scanTol:  exact[ScanAttrs],
	start:    math.Inf(-1),
	float:    func(acc, x float64) float64 { return max(acc, x) },
	integer:  func(acc, x int64) int64 { return max(acc, x) },
	startInt: func(d dtype.DType) int64 { lo, _ := d.IntRange(); return lo },
})

// Cummax adds the running maximum along an axis.
func Cummax(x *ir.Node, a ScanAttrs) *ir.Node { return addScan(CummaxDef, x, a) }
