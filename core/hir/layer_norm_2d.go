package hir

import (
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// LayerNorm2dAttrs are the attributes of layer_norm_2d.
type LayerNorm2dAttrs struct {
	Eps    float64 `attr:"eps"`
	Layout string  `attr:"layout"` // "nchw" or "nhwc"
}

// LayerNorm2dDef normalises each pixel over its channels.
var LayerNorm2dDef = ir.Define(ir.Def[LayerNorm2dAttrs]{
	Name: "layer_norm_2d", Operands: "x, gamma, beta", Block: true,
	Doc: "Layer norm over the channels of each pixel: x [B,C,H,W] (layout nchw) or [B,H,W,C] (nhwc), gamma [C], beta [C].",
	Infer: func(s ir.Sig[LayerNorm2dAttrs]) (ir.Type, error) {
		x := s.In[0]
		if len(x.Shape) != 4 || s.Attrs.Layout != "nchw" && s.Attrs.Layout != "nhwc" {
			return ir.Type{}, fmt.Errorf("x is %v in layout %q; want rank 4 and nchw or nhwc", x, s.Attrs.Layout)
		}
		c := x.Shape[3]
		if s.Attrs.Layout == "nchw" {
			c = x.Shape[1]
		}
		err := vector("gamma", s.In[1], c)
		if err == nil {
			err = vector("beta", s.In[2], c)
		}
		return x, err
	},
})

var _ = ir.Lower(LayerNorm2dDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	a := n.Attrs.(LayerNorm2dAttrs)
	x := in[0]
	if a.Layout == "nchw" {
		x = op.Transpose(x, 0, 2, 3, 1)
	}
	x = op.LayerNorm(x, f32(in[1]), f32(in[2]), a.Eps)
	if a.Layout == "nchw" {
		x = op.Transpose(x, 0, 3, 1, 2)
	}
	return x
})

// LayerNorm2d adds a layer norm of each pixel over its channels.
func LayerNorm2d(x, gamma, beta *ir.Node, eps float64, layout string) *ir.Node {
	return x.Graph.Add(LayerNorm2dDef, LayerNorm2dAttrs{eps, layout}, x, gamma, beta)
}
