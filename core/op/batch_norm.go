package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// BatchNormAttrs are the attributes of batch_norm.
type BatchNormAttrs struct {
	Eps float64 `attr:"eps"` // added to the variance before the root
}

// BatchNormDef defines batch normalisation at inference.
var BatchNormDef = ir.Define(ir.Def[BatchNormAttrs]{
	Name: "batch_norm",
	Doc: "Takes x, gamma, beta, mean and var. x has shape [N,C,...], the others [C]. y = (x - mean) / sqrt(var + eps) * gamma + beta, for each channel with " +
		"the mean and the variance that training has collected (Ioffe and Szegedy 2015).",
	Operands: "x, gamma, beta, mean, var",
	Infer: func(s ir.Sig[BatchNormAttrs]) (ir.Type, error) {
		return inferChannelNorm(s.Attrs.Eps, s.In, "gamma", "beta", "mean", "var")
	},
	Eval: func(a BatchNormAttrs, in []*tensor.Array, out *tensor.Array) error {
		c, area := out.Shape[1], tensor.Numel(out.Shape[2:])
		for i, x := range in[0].Floats {
			k := i / area % c
			out.Floats[i] = (x-in[3].Floats[k])/math.Sqrt(in[4].Floats[k]+a.Eps)*in[1].Floats[k] + in[2].Floats[k]
		}
		return nil
	},
	FLOPs: perElement[BatchNormAttrs](4),
	Tol:   rounded[BatchNormAttrs],
	Cases: func() []ir.Case[BatchNormAttrs] {
		var cases []ir.Case[BatchNormAttrs]
		for _, x := range []ir.Type{f32(1, 1), f32(3, 5), f32(2, 3, 5), f32(2, 3, 4, 5), f32(0, 4, 3), f32(3, 4, 0),
			f32(3, 0, 2), f16(2, 3, 5), bf16(2, 3, 5), f64(2, 3, 5)} {
			cases = append(cases, ir.Case[BatchNormAttrs]{
				Attrs: BatchNormAttrs{1e-5}, In: channelNormIn(x, 4),
				Fill: []ir.Range{{Lo: -2, Hi: 2}, {Lo: -2, Hi: 2}, {Lo: -2, Hi: 2}, {Lo: -2, Hi: 2}, {Lo: 0.25, Hi: 3}},
			})
		}
		return cases
	},
})

// BatchNorm adds batch normalisation of the channels, axis 1 of x. The other operands have shape [C] or [1,C].
func BatchNorm(x, gamma, beta, mean, variance *ir.Node, eps float64) *ir.Node {
	return x.Graph.Add(BatchNormDef, BatchNormAttrs{eps}, x, gain(gamma), gain(beta), gain(mean), gain(variance))
}

// The lowering computes the factor once per channel, so that each element needs only a subtraction, a multiplication
// and an addition.
var _ = ir.Lower(BatchNormDef, func(_ *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	x, scale := in[0], Mul(in[1], Rsqrt(Add(in[4], number(n.Attrs.(BatchNormAttrs).Eps, in[4]))))
	return Add(Mul(Sub(x, perChannel(in[3], x)), perChannel(scale, x)), perChannel(in[2], x))
})
