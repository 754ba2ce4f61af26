package op

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// CumprodDef defines the running product along an axis.
var CumprodDef = scan(reduction{
	name: "cumprod",
	doc: "The running product along an axis: y_i is the product of x_0 to x_i, of x_0 to x_{i-1} with exclusive, which begins with 1. Reverse " +
		"multiplies from the last element to the first. Integers wrap; NaN stays NaN from where it stands on.",
	scanTol:  summedLine,
	start:    1,
	float:    func(acc, x float64) float64 { return acc * x },
	integer:  func(acc, x int64) int64 { return acc * x },
	startInt: func(dtype.DType) int64 { return 1 },
	fill:     nearOne,
})

// Cumprod adds the running product along an axis.
func Cumprod(x *ir.Node, a ScanAttrs) *ir.Node { return addScan(CumprodDef, x, a) }
