package hir

import (
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// ResidualRmsNormDef computes rms_norm of a sum.
var ResidualRmsNormDef = ir.Define(ir.Def[op.RmsNormAttrs]{
	Name: "residual_rms_norm", Operands: "x, res, gamma, beta", Block: true,
	Doc: "rms_norm(x + res) over the last axis: x and res [..., C], gamma [C], beta [C], which is added to the result.",
	Infer: func(s ir.Sig[op.RmsNormAttrs]) (ir.Type, error) {
		x, c := s.In[0], channels(s.In[0])
		return x, expect("residual_rms_norm", s.In, 1, x.Shape, ir.Shape{c}, ir.Shape{c})
	},
})

var _ = ir.Lower(ResidualRmsNormDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	return op.FusedResidualRmsNorm(in[0], in[1], f32(in[2]), f32(in[3]), n.Attrs.(op.RmsNormAttrs).Eps)
})

// ResidualRmsNorm adds rms_norm(x + res) with gain gamma and bias beta.
func ResidualRmsNorm(x, res, gamma, beta *ir.Node, eps float64) *ir.Node {
	return x.Graph.Add(ResidualRmsNormDef, op.RmsNormAttrs{Eps: eps}, x, res, gamma, beta)
}
