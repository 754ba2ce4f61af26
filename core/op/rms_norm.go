package op

import (
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// RmsNormAttrs are the attributes of rms_norm.
type RmsNormAttrs struct {
	Eps float64 `attr:"eps"` // added to the mean square before the root
}

// RmsNormDef defines root-mean-square normalisation over the last axis.
var RmsNormDef = ir.Define(ir.Def[RmsNormAttrs]{
	Name: "rms_norm",
	Doc: "Takes x, gamma and beta. y = x / sqrt(mean(x^2) + eps) * gamma + beta over the last axis (Zhang and Sennrich 2019). beta is always added; " +
		"pass zeros for the plain form.",
	Operands: "x, gamma, beta",
	Infer:    func(s ir.Sig[RmsNormAttrs]) (ir.Type, error) { return inferNorm(s.Attrs.Eps, s.In, false) },
	Eval: func(a RmsNormAttrs, in []*tensor.Array, out *tensor.Array) error {
		rmsNorm(a.Eps, in[0].Floats, in[1].Floats, in[2].Floats, out.Floats)
		return nil
	},
	FLOPs: perElement[RmsNormAttrs](8),
	Tol:   rounded[RmsNormAttrs],
	Cases: func() []ir.Case[RmsNormAttrs] {
		var cases []ir.Case[RmsNormAttrs]
		for _, x := range normTypes() {
			cases = append(cases, ir.Case[RmsNormAttrs]{Attrs: RmsNormAttrs{1e-6}, In: normIn(x, false)})
		}
		return cases
	},
})

// RmsNorm adds root-mean-square normalisation over the last axis of x, of size H. gamma and beta have shape [H] or
// [1,H].
func RmsNorm(x, gamma, beta *ir.Node, eps float64) *ir.Node {
	return x.Graph.Add(RmsNormDef, RmsNormAttrs{eps}, x, gain(gamma), gain(beta))
}

var _ = ir.Lower(RmsNormDef, func(_ *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	return scaled(in[0], ReduceMean(Mul(in[0], in[0]), true, -1), n.Attrs.(RmsNormAttrs).Eps, in[1], in[2])
})
