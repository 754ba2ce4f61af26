package op

import (
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// FusedResidualRmsNormAttrs are the attributes of fused_residual_rms_norm.
type FusedResidualRmsNormAttrs struct {
	Eps float64 `attr:"eps"` // added to the mean square before the root
}

// FusedResidualRmsNormDef defines rms_norm of a sum.
var FusedResidualRmsNormDef = ir.Define(ir.Def[FusedResidualRmsNormAttrs]{
	Name:     "fused_residual_rms_norm",
	Doc:      "rms_norm(x + res, gamma, beta), see there; x and res have equal types. The sum is rounded to f32, or to f64 if x is f64.",
	Operands: "x, res, gamma, beta",
	Infer:    func(s ir.Sig[FusedResidualRmsNormAttrs]) (ir.Type, error) { return inferNorm(s.Attrs.Eps, s.In, true) },
	Eval: func(a FusedResidualRmsNormAttrs, in []*tensor.Array, out *tensor.Array) error {
		rmsNorm(a.Eps, plus(in[0], in[1]), in[2].Floats, in[3].Floats, out.Floats)
		return nil
	},
	Memory: plusMemory[FusedResidualRmsNormAttrs],
	FLOPs:  perElement[FusedResidualRmsNormAttrs](9),
	Tol:    rounded[FusedResidualRmsNormAttrs],
	Cases: func() []ir.Case[FusedResidualRmsNormAttrs] {
		var cases []ir.Case[FusedResidualRmsNormAttrs]
		for _, x := range normTypes() {
			cases = append(
				cases, ir.Case[FusedResidualRmsNormAttrs]{Attrs: FusedResidualRmsNormAttrs{1e-6}, In: normIn(x, true)})
		}
		return cases
	},
})

// FusedResidualRmsNorm returns a node that computes rms_norm(x + res, gamma, beta).
func FusedResidualRmsNorm(x, res, gamma, beta *ir.Node, eps float64) *ir.Node {
	return x.Graph.Add(FusedResidualRmsNormDef, FusedResidualRmsNormAttrs{eps}, x, res, gain(gamma), gain(beta))
}

var _ = ir.Lower(FusedResidualRmsNormDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	return RmsNorm(Add(in[0], in[1]), in[2], in[3], n.Attrs.(FusedResidualRmsNormAttrs).Eps)
})
