package op

import (
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// InstanceNormAttrs are the attributes of instance_norm.
type InstanceNormAttrs struct {
	Eps float64 `attr:"eps"` // added to the variance before the root
}

// InstanceNormDef normalises each channel separately.
var InstanceNormDef = ir.Define(ir.Def[InstanceNormAttrs]{
	Name: "instance_norm",
	Doc: "Takes x, gamma and beta. This is group_norm with a group for each channel: each channel of each batch is normalised over the axes after " +
		"it (Ulyanov et al. 2016).",
	Operands: "x, gamma, beta",
	Infer: func(s ir.Sig[InstanceNormAttrs]) (ir.Type, error) {
		return inferChannelNorm(s.Attrs.Eps, s.In, "gamma", "beta")
	},
	Eval: func(a InstanceNormAttrs, in []*tensor.Array, out *tensor.Array) error {
		return GroupNormDef.Eval(GroupNormAttrs{max(in[0].Shape[1], 1), a.Eps}, in, out)
	},
	FLOPs: perElement[InstanceNormAttrs](8),
	Tol:   rounded[InstanceNormAttrs],
	Cases: func() []ir.Case[InstanceNormAttrs] {
		var cases []ir.Case[InstanceNormAttrs]
		for _, x := range []ir.Type{
			f32(1, 1), f32(2, 3, 5), f32(2, 3, 4, 5), f32(1, 2, 3, 3, 3), f32(0, 4, 3), f32(3, 4, 0), f32(3, 0, 2),
			f32(1, 3, 21, 33), f16(2, 3, 5), bf16(2, 3, 5), f64(2, 3, 5),
		} {
			cases = append(cases, ir.Case[InstanceNormAttrs]{Attrs: InstanceNormAttrs{1e-5}, In: channelNormIn(x, 2)})
		}
		return cases
	},
})

// InstanceNorm adds normalisation of each channel, axis 1 of x, over the axes after it. gamma and beta have shape [C]
// or [1,C].
func InstanceNorm(x, gamma, beta *ir.Node, eps float64) *ir.Node {
	return x.Graph.Add(InstanceNormDef, InstanceNormAttrs{eps}, x, gain(gamma), gain(beta))
}

var _ = ir.Lower(InstanceNormDef, func(_ *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	return GroupNorm(in[0], in[1], in[2], int(max(n.Type.Shape[1].Const, 1)), n.Attrs.(InstanceNormAttrs).Eps)
})
