package backend

import (
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/norm"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
)

var (
	_ = register(normBackward("layer_norm_backward", true,
		func(a any) float64 { return a.(op.LayerNormAttrs).Eps }))
	_ = register(normBackward("rms_norm_backward", false, func(a any) float64 { return a.(op.RmsNormAttrs).Eps }))
)

func normBackward(name string, center bool, eps func(attrs any) float64) kernel {
	return kernel{op: name, takes: "(f32...)",
		scratch: func(_ *pool.Pool, n *ir.Node, _ product.Precision) pool.Size {
			shape := n.Graph.Syms.Largest(n.In[0].Type.Shape)
			last := len(shape) - 1
			return norm.BackwardScratch(tensor.Numel(shape[:last]), shape[last])
		},
		run: func(c *call) error {
			rows, n := rowsOf(c.in[0])
			norm.Backward(c.pool, norm.BackwardArgs{DX: f32(c.results[0]), DGamma: f32(c.results[1]),
				DBeta: f32(c.results[2]), X: f32(c.in[0]), Gamma: f32(c.in[1]), DY: f32(c.in[2]), Rows: rows, N: n,
				Eps: float32(eps(c.node.Attrs)), Center: center})
			return nil
		}}
}

var _ = register(kernel{op: "group_norm_backward", takes: "(f32...)",
	scratch: func(_ *pool.Pool, n *ir.Node, _ product.Precision) pool.Size {
		shape := n.Graph.Syms.Largest(n.In[0].Type.Shape)
		return norm.GroupBackwardScratch(shape[0], shape[1])
	},
	run: func(c *call) error {
		a, shape := c.node.Attrs.(op.GroupNormAttrs), c.in[0].Shape
		norm.GroupBackward(c.pool, norm.GroupBackwardArgs{DX: f32(c.results[0]), DGamma: f32(c.results[1]),
			DBeta: f32(c.results[2]), X: f32(c.in[0]), Gamma: f32(c.in[1]), DY: f32(c.in[2]), Batch: shape[0],
			Channels: shape[1], Area: tensor.Numel(shape[2:]), Groups: a.Groups, Eps: float32(a.Eps)})
		return nil
	}})
