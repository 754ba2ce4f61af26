package op

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// CumsumDef defines the running sum along an axis.
var CumsumDef = scan(reduction{
	name: "cumsum",
	doc: "The running sum along an axis: y_i is the sum of x_0 to x_i, of x_0 to x_{i-1} with exclusive, which begins with 0. Reverse sums from " +
		"the last element to the first. Integers wrap; NaN stays NaN from where it stands on.",
	scanTol:  summedLine,
	float:    func(acc, x float64) float64 { return acc + x },
	integer:  func(acc, x int64) int64 { return acc + x },
	startInt: func(dtype.DType) int64 { return 0 },
})

// Cumsum adds the running sum along an axis.
func Cumsum(x *ir.Node, a ScanAttrs) *ir.Node { return addScan(CumsumDef, x, a) }

// dx_i is the sum of dy_j over all j to whose y_j x_i contributes: the running sum in the other direction.
var _ = ir.Gradient(CumsumDef, func(n *ir.Node, dy []*ir.Node) ([]*ir.Node, error) {
	a := n.Attrs.(ScanAttrs)
	a.Reverse = !a.Reverse
	return []*ir.Node{Cumsum(dy[0], a)}, nil
})
