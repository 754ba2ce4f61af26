package op

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// GroupNormBackwardDef defines the gradients of group_norm.
var GroupNormBackwardDef = ir.DefineTuple(ir.TupleDef[GroupNormAttrs]{
	Name: "group_norm_backward",
	Doc: "The gradients of group_norm (see there), given x [N,C,...], gamma [C] and the gradient dy of its result; dy has the type " +
		"of x, f32 or f64. With s = 1/sqrt(var + eps), xhat = (x - mean)*s and g = dy*gamma: dx = s*(g - mean(g) - " +
		"xhat*mean(g*xhat)), the means over a group; dgamma = sum of dy*xhat and dbeta = sum of dy for each channel.",
	Results:  "dx, dgamma, dbeta",
	Operands: "x, gamma, dy",
	Infer: func(s ir.Sig[GroupNormAttrs]) ([]ir.Type, error) {
		x, gamma, dy := s.In[0], s.In[1], s.In[2]
		if err := singleOrDouble("x", x); err != nil {
			return nil, err
		}
		if _, err := GroupNormDef.Infer(s.Attrs, []ir.Type{x, gamma, gamma}, ir.Type{}, s.Syms); err != nil {
			return nil, err
		}
		if !dy.Equal(x) {
			return nil, ir.TypesDiffer(dy, x, "dy is %v; want %v, the type of x", dy, x)
		}
		return []ir.Type{x, gamma, gamma}, nil
	},
	Eval: func(a GroupNormAttrs, in, out []*tensor.Array) error {
		x, gamma, dy := in[0], in[1].Floats, in[2].Floats
		c, area := x.Shape[1], tensor.Numel(x.Shape[2:])
		n := c / a.Groups * area
		if len(x.Floats) == 0 {
			return nil // the gradients of gamma and beta are 0
		}
		g := make([]float64, n)
		for r := 0; r < len(x.Floats); r += n {
			row := x.Floats[r : r+n]
			s := normalizedRow(a.Eps, row, true)
			for i, v := range dy[r : r+n] {
				k := (r + i) / area % c
				g[i] = v * gamma[k]
				out[1].Floats[k] += v * (row[i] - s.mean) * s.scale
				out[2].Floats[k] += v
			}
			s.back(row, g, out[0].Floats[r:r+n])
		}
		return nil
	},
	Memory: func(s ir.Sig[GroupNormAttrs], _ []ir.Type) int64 { return 8 * 3 * s.Syms.MaxElems(s.In[0]) },
	FLOPs:  func(_ GroupNormAttrs, in, _ []ir.Type) int64 { return 15 * numel(in[0]) },
	Tol: func(_ GroupNormAttrs, in, out []ir.Type) []ir.Tolerance {
		sum := summed(out[1].DType, numel(in[0])/max(numel(in[1]), 1))
		return []ir.Tolerance{forDType(out[0].DType, 1e-6, 1e-5), sum, sum}
	},
	Cases: func() (cases []ir.Case[GroupNormAttrs]) {
		for _, c := range GroupNormDef.Cases() {
			if x, a := c.In[0], c.Attrs.(GroupNormAttrs); x.DType == dtype.F32 || x.DType == dtype.F64 {
				a.Eps = 1e-2
				cases = append(cases, ir.Case[GroupNormAttrs]{Attrs: a, In: []ir.Type{x, c.In[1], x}})
			}
		}
		return cases
	},
})

// GroupNormBackward returns the gradients of x, gamma and beta of GroupNorm, given the gradient of its result.
func GroupNormBackward(x, gamma, dy *ir.Node, groups int, eps float64) []*ir.Node {
	return x.Graph.AddResults(3, GroupNormBackwardDef, GroupNormAttrs{groups, eps}, x, gamma, dy)
}

var _ = ir.LowerTuple(GroupNormBackwardDef, func(_ *ir.Graph, n *ir.Node, in []*ir.Node) []*ir.Node {
	a, x := n.Attrs.(GroupNormAttrs), in[0]
	groups := int64(a.Groups)
	per := x.Type.Shape[1].Const / groups
	shape := append(ir.Shape{x.Type.Shape[0], ir.Static(groups), ir.Static(per)}, x.Type.Shape[2:]...)
	axes, rest := []int{}, []int{0} // axes of a group; axes other than those of the channels
	for i := 2; i < len(shape); i++ {
		axes = append(axes, i)
		if i > 2 {
			rest = append(rest, i)
		}
	}
	d := Reshape(x, shape)
	d = Sub(d, ReduceMean(d, true, axes...))
	wide := append(ir.Shape{ir.Static(1), ir.Static(groups), ir.Static(per)}, ir.Shape{}...)
	for range shape[3:] {
		wide = append(wide, ir.Static(1))
	}
	grads := lowerNormBackward(d, Reshape(in[1], wide), Reshape(in[2], shape), a.Eps, true, axes,
		func(v *ir.Node) *ir.Node { return Reshape(ReduceSum(v, false, rest...), in[1].Type.Shape) })
	grads[0] = Reshape(grads[0], x.Type.Shape)
	return grads
})

var _ = ir.Gradient(GroupNormDef, func(n *ir.Node, dy []*ir.Node) ([]*ir.Node, error) {
	a, in := n.Attrs.(GroupNormAttrs), allWidened(n.In[0], n.In[1], dy[0])
	return narrowed(GroupNormBackward(in[0], in[1], in[2], a.Groups, a.Eps), n.In), nil
})

// An instance norm is a group norm with a group for each channel.
var _ = ir.Gradient(InstanceNormDef, func(n *ir.Node, dy []*ir.Node) ([]*ir.Node, error) {
	in := allWidened(n.In[0], n.In[1], dy[0])
	groups := int(max(n.Type.Shape[1].Const, 1))
	return narrowed(GroupNormBackward(in[0], in[1], in[2], groups, n.Attrs.(InstanceNormAttrs).Eps), n.In), nil
})
