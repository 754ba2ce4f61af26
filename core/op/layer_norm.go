package op

import (
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// LayerNormAttrs are the attributes of layer_norm.
type LayerNormAttrs struct {
	Eps float64 `attr:"eps"` // added to the variance before the root
}

// LayerNormDef defines layer normalisation over the last axis.
var LayerNormDef = ir.Define(ir.Def[LayerNormAttrs]{
	Name: "layer_norm",
	Doc: "Takes x, gamma and beta. y = (x - mean) / sqrt(var + eps) * gamma + beta over the last axis, with biased variance (Ba et al. 2016). The " +
		"variance is the mean of (x - mean)^2, never E[x^2] - mean^2.",
	Operands: "x, gamma, beta",
	Infer:    func(s ir.Sig[LayerNormAttrs]) (ir.Type, error) { return inferNorm(s.Attrs.Eps, s.In, false) },
	Eval: func(a LayerNormAttrs, in []*tensor.Array, out *tensor.Array) error {
		layerNorm(a.Eps, in[0].Floats, in[1].Floats, in[2].Floats, out.Floats)
		return nil
	},
	FLOPs: perElement[LayerNormAttrs](8),
	Tol:   rounded[LayerNormAttrs],
	Cases: func() []ir.Case[LayerNormAttrs] {
		var cases []ir.Case[LayerNormAttrs]
		for _, x := range normTypes() {
			cases = append(cases, ir.Case[LayerNormAttrs]{Attrs: LayerNormAttrs{1e-6}, In: normIn(x, false)})
		}
		return cases
	},
})

// LayerNorm adds layer normalisation over the last axis of x, of size H. gamma and beta have shape [H] or [1,H].
func LayerNorm(x, gamma, beta *ir.Node, eps float64) *ir.Node {
	return x.Graph.Add(LayerNormDef, LayerNormAttrs{eps}, x, gain(gamma), gain(beta))
}

var _ = ir.Lower(LayerNormDef, func(_ *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	d := Sub(in[0], ReduceMean(in[0], true, -1))
	return scaled(d, ReduceMean(Mul(d, d), true, -1), n.Attrs.(LayerNormAttrs).Eps, in[1], in[2])
})
