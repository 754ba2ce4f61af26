package kernels

import (
	_ "embed"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

//go:embed conv_direct.wgsl
var convDirectWGSL string

var (
	_ = register(Kernel{Op: "conv2d", Takes: "(" + floats + "...)", Shaders: func(n *ir.Node, l Limits) []Shader {
		g, err := n.Attrs.(op.Conv2DAttrs).Geometry()
		if err != nil {
			return nil
		}
		if gemm, ok := convTiled(n, g, l); ok {
			return []Shader{gemm}
		}
		return []Shader{convDirect(n, g, false)}
	}})
	_ = register(Kernel{Op: "conv_transpose2d", Takes: "(" + floats + "...)", Shaders: func(n *ir.Node, l Limits) []Shader {
		g, err := n.Attrs.(op.ConvTranspose2DAttrs).Geometry()
		if err != nil {
			return nil
		}
		if gemm, ok := convTransposeTiled(n, g, l); ok {
			return []Shader{gemm}
		}
		return []Shader{convDirect(n, g, true)}
	}})
)

func convDirect(n *ir.Node, g op.ConvGeometry, transposed bool) Shader {
	consts := map[string]any{"Last": g.C == 3, "Transposed": transposed, "Bias": len(n.In) == 3}
	fields := []string{"c_in", "h_in", "w_in", "c_out", "h_out", "w_out", "kh", "kw", "groups", "stride_h", "stride_w", "pad_h", "pad_w", "dil_h", "dil_w"}
	return mapped(n, n.Op.Name, convDirectWGSL, consts, fields, func(c *Call) (p []uint32) {
		x, w, y := c.In[0].Shape, c.In[1].Shape, c.Out.Shape
		for _, v := range []int{x[g.C], x[g.H], x[g.W], y[g.C], y[g.H], y[g.W], w[2], w[3], g.Groups, g.Stride[0], g.Stride[1], g.Padding[0], g.Padding[1], g.Dilation[0], g.Dilation[1]} {
			p = append(p, uint32(v))
		}
		return p
	}).withLoops(n, func(c *Call) int {
		w := c.In[1].Shape
		return loop(w[2], loop(w[3], loop(c.In[0].Shape[g.C]/g.Groups, 0)))
	})
}
