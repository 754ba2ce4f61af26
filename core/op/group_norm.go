package op

import (
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// GroupNormAttrs are the attributes of group_norm.
type GroupNormAttrs struct {
	Groups int     `attr:"groups"` // divides the number of channels
	Eps    float64 `attr:"eps"`    // added to the variance before the root
}

// GroupNormDef defines normalisation over groups of channels.
var GroupNormDef = ir.Define(ir.Def[GroupNormAttrs]{
	Name: "group_norm",
	Doc: "Takes x, gamma and beta. x has shape [N,C,...], whose C channels are divided into groups. y = (x - mean) / sqrt(var + eps) * gamma + beta, with " +
		"the mean and the biased variance of each group of each batch over its channels and all further axes (Wu and He 2018); gamma and beta have " +
		"shape [C]. The variance is the mean of (x - mean)^2, never E[x^2] - mean^2.",
	Operands: "x, gamma, beta",
	Infer: func(s ir.Sig[GroupNormAttrs]) (ir.Type, error) {
		x, err := inferChannelNorm(s.Attrs.Eps, s.In, "gamma", "beta")
		if g := int64(s.Attrs.Groups); err == nil && (g < 1 || x.Shape[1].Const%g != 0) {
			err = fmt.Errorf("groups is %d; want 1 or more that divide the %d channels of %v", g, x.Shape[1].Const, x)
		}
		return x, err
	},
	Eval: func(a GroupNormAttrs, in []*tensor.Array, out *tensor.Array) error {
		x, gamma, beta := in[0], in[1].Floats, in[2].Floats
		c, area := x.Shape[1], tensor.Numel(x.Shape[2:])
		n := c / a.Groups * area
		for r := 0; r < len(x.Floats); r += n {
			mean, scale := moments(a.Eps, x.Floats[r:r+n])
			for i := r; i < r+n; i++ {
				k := i / area % c
				out.Floats[i] = (x.Floats[i]-mean)*scale*gamma[k] + beta[k]
			}
		}
		return nil
	},
	FLOPs: perElement[GroupNormAttrs](8),
	Tol:   rounded[GroupNormAttrs],
	Cases: func() []ir.Case[GroupNormAttrs] {
		c := func(groups int, x ir.Type) ir.Case[GroupNormAttrs] {
			return ir.Case[GroupNormAttrs]{Attrs: GroupNormAttrs{groups, 1e-5}, In: channelNormIn(x, 2)}
		}
		return []ir.Case[GroupNormAttrs]{
			c(1, f32(1, 1)), c(2, f32(3, 6)), c(3, f32(2, 6, 5)), c(6, f32(2, 6, 5)), c(1, f32(2, 3, 4, 5)),
			c(2, f32(2, 4, 3, 3, 3)), c(2, f32(0, 4, 3)),
			c(2, f32(3, 4, 0)), c(1, f32(3, 0, 2)), c(4, f32(1, 8, 31, 33)), c(2, f32(1, 4, 65, 80)),
			c(3, f16(2, 6, 5)), c(2, f16(1, 4, 8)), c(3, bf16(2, 6, 5)), c(3, f64(2, 6, 5)),
		}
	},
})

// GroupNorm adds normalisation over groups of the channels, axis 1 of x. gamma and beta have shape [C] or [1,C].
func GroupNorm(x, gamma, beta *ir.Node, groups int, eps float64) *ir.Node {
	return x.Graph.Add(GroupNormDef, GroupNormAttrs{groups, eps}, x, gain(gamma), gain(beta))
}

var _ = ir.Lower(GroupNormDef, func(_ *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	a, x := n.Attrs.(GroupNormAttrs), in[0]
	shape := append(
		ir.Shape{x.Type.Shape[0], ir.Static(int64(a.Groups)), ir.Static(x.Type.Shape[1].Const / int64(a.Groups))},
		x.Type.Shape[2:]...)
	axes := make([]int, len(shape)-2)
	for i := range axes {
		axes[i] = 2 + i
	}
	d := Reshape(x, shape)
	d = Sub(d, ReduceMean(d, true, axes...))
	y := Mul(d, Rsqrt(Add(ReduceMean(Mul(d, d), true, axes...), number(a.Eps, x))))
	return Add(Mul(Reshape(y, x.Type.Shape), perChannel(in[1], x)), perChannel(in[2], x))
})
