package backend

import (
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/plugins/cpu/kernels"
)

var (
	_ = register(kernel{op: "conv2d", takes: takesF32, prepare: func(n *ir.Node) func(*call) error {
		g := geometryOf(n.Attrs.(op.Conv2DAttrs).Geometry())
		return func(c *call) error {
			a := convArgs(c, g)
			a.Cout = c.in[1].Shape[0]
			kernels.Conv2D(c.pool, &a)
			return nil
		}
	}})
	_ = register(kernel{op: "conv_transpose2d", takes: takesF32, prepare: func(n *ir.Node) func(*call) error {
		g := geometryOf(n.Attrs.(op.ConvTranspose2DAttrs).Geometry())
		return func(c *call) error {
			a := convArgs(c, g)
			a.Cout = c.in[1].Shape[1] * g.Groups
			kernels.ConvTranspose2D(c.pool, &a)
			return nil
		}
	}})
)

// geometryOf is the geometry of a node, whose attributes were checked when its type was inferred.
func geometryOf(g op.ConvGeometry, err error) op.ConvGeometry {
	if err != nil {
		panic("BUG: cpu: " + err.Error())
	}
	return g
}

func convArgs(c *call, g op.ConvGeometry) kernels.Conv2DArgs {
	x, w := c.in[0], c.in[1]
	last := g.C == 3
	return kernels.Conv2DArgs{
		N: x.Shape[0], H: x.Shape[g.H], W: x.Shape[g.W], Cin: x.Shape[g.C], KH: w.Shape[2], KW: w.Shape[3],
		Stride: [2]int(g.Stride), Pad: [2]int(g.Padding), Dilation: [2]int(g.Dilation), OutputPad: [2]int(g.OutputPadding), Groups: g.Groups,
		X: f32(x), XLast: last, Weight: weights(w), Bias: optional(c, 2), Out: f32(c.out), OutLast: last,
	}
}
