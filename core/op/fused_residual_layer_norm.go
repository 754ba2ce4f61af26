package op

import (
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// FusedResidualLayerNormAttrs are the attributes of fused_residual_layer_norm.
type FusedResidualLayerNormAttrs struct {
	Eps float64 `attr:"eps"` // added to the variance before the root
}

// FusedResidualLayerNormDef defines layer_norm of a sum.
var FusedResidualLayerNormDef = ir.Define(ir.Def[FusedResidualLayerNormAttrs]{
	Name:     "fused_residual_layer_norm",
	Doc:      "layer_norm(x + res, gamma, beta), see there; x and res have equal types. The sum is rounded to f32, or to f64 if x is f64.",
	Operands: "x, res, gamma, beta",
	Infer: func(s ir.Sig[FusedResidualLayerNormAttrs]) (ir.Type, error) {
		return inferNorm(s.Attrs.Eps, s.In, true)
	},
	Eval: func(a FusedResidualLayerNormAttrs, in []*tensor.Array, out *tensor.Array) error {
		layerNorm(a.Eps, plus(in[0], in[1]), in[2].Floats, in[3].Floats, out.Floats)
		return nil
	},
	Memory: plusMemory[FusedResidualLayerNormAttrs],
	FLOPs:  perElement[FusedResidualLayerNormAttrs](9),
	Tol:    rounded[FusedResidualLayerNormAttrs],
	Cases: func() []ir.Case[FusedResidualLayerNormAttrs] {
		var cases []ir.Case[FusedResidualLayerNormAttrs]
		for _, x := range normTypes() {
			cases = append(
				cases, ir.Case[FusedResidualLayerNormAttrs]{Attrs: FusedResidualLayerNormAttrs{1e-6},
					In: normIn(x, true)})
		}
		return cases
	},
})

// FusedResidualLayerNorm returns a node that computes layer_norm(x + res, gamma, beta).
func FusedResidualLayerNorm(x, res, gamma, beta *ir.Node, eps float64) *ir.Node {
	return x.Graph.Add(FusedResidualLayerNormDef, FusedResidualLayerNormAttrs{eps}, x, res, gain(gamma), gain(beta))
}

var _ = ir.Lower(FusedResidualLayerNormDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	return LayerNorm(Add(in[0], in[1]), in[2], in[3], n.Attrs.(FusedResidualLayerNormAttrs).Eps)
})
