package op

import "github.com/rlx-go/rlx/core/ir"

// FusedAddLayerNormAttrs are the attributes of fused_add_layer_norm.
type FusedAddLayerNormAttrs struct {
	Eps float64 `attr:"eps"` // added to the variance before the root
}

// FusedAddLayerNormDef defines a sum and its layer_norm. Unlike fused_residual_layer_norm it is for sums that others
// read, too.
var FusedAddLayerNormDef = addNorm("layer_norm", func(a FusedAddLayerNormAttrs) float64 { return a.Eps }, layerNorm,
	func(eps float64) FusedAddLayerNormAttrs { return FusedAddLayerNormAttrs{eps} })

// FusedAddLayerNorm returns x + res and layer_norm of it.
func FusedAddLayerNorm(x, res, gamma, beta *ir.Node, eps float64) (sum, y *ir.Node) {
	v := x.Graph.AddResults(2, FusedAddLayerNormDef, FusedAddLayerNormAttrs{eps}, x, res, gain(gamma), gain(beta))
	return v[0], v[1]
}

var _ = ir.LowerTuple(FusedAddLayerNormDef, func(_ *ir.Graph, n *ir.Node, in []*ir.Node) []*ir.Node {
	sum := Add(in[0], in[1])
	return []*ir.Node{sum, LayerNorm(sum, in[2], in[3], n.Attrs.(FusedAddLayerNormAttrs).Eps)}
})
