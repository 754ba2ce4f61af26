package op

import "github.com/rlx-go/rlx/core/ir"

// FusedAddRmsNormAttrs are the attributes of fused_add_rms_norm.
type FusedAddRmsNormAttrs struct {
	Eps float64 `attr:"eps"` // added to the mean square before the root
}

// FusedAddRmsNormDef defines a sum and its rms_norm. Unlike fused_residual_rms_norm it is for sums that others
// read, too.
var FusedAddRmsNormDef = addNorm("rms_norm", func(a FusedAddRmsNormAttrs) float64 { return a.Eps }, rmsNorm,
	func(eps float64) FusedAddRmsNormAttrs { return FusedAddRmsNormAttrs{eps} })

// FusedAddRmsNorm returns x + res and rms_norm of it.
func FusedAddRmsNorm(x, res, gamma, beta *ir.Node, eps float64) (sum, y *ir.Node) {
	v := x.Graph.AddResults(2, FusedAddRmsNormDef, FusedAddRmsNormAttrs{eps}, x, res, gain(gamma), gain(beta))
	return v[0], v[1]
}

var _ = ir.LowerTuple(FusedAddRmsNormDef, func(_ *ir.Graph, n *ir.Node, in []*ir.Node) []*ir.Node {
	sum := Add(in[0], in[1])
	return []*ir.Node{sum, RmsNorm(sum, in[2], in[3], n.Attrs.(FusedAddRmsNormAttrs).Eps)}
})
