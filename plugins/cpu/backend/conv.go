package backend

import (
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/plugins/cpu/kernels"
)

var (
	_ = register(kernel{op: "conv2d", takes: takesF32, scratch: convScratch, prepare: func(n *ir.Node) func(*call) error {
		g := geometryOf(n.Attrs.(op.Conv2DAttrs).Geometry())
		return func(c *call) error {
			a := convArgs(c, g)
			a.Cout = c.in[1].Shape[0]
			kernels.Conv2D(c.pool, &a)
			return nil
		}
	}})
	_ = register(kernel{op: "conv_transpose2d", takes: takesF32, scratch: convScratch, prepare: func(n *ir.Node) func(*call) error {
		g := geometryOf(n.Attrs.(op.ConvTranspose2DAttrs).Geometry())
		return func(c *call) error {
			a := convArgs(c, g)
			a.Cout = c.in[1].Shape[1] * g.Groups
			kernels.ConvTranspose2D(c.pool, &a)
			return nil
		}
	}})
)

func convScratch(p *kernels.Pool, n *ir.Node, _ kernels.Precision) kernels.ScratchSize {
	x, w := n.Graph.Syms.Largest(n.In[0].Type.Shape), n.Graph.Syms.Largest(n.In[1].Type.Shape)
	a, plain := n.Attrs.(op.Conv2DAttrs)
	if plain {
		c := convSizes(x, w, geometryOf(a.Geometry()))
		c.Cout = w[0]
		return c.ScratchSize(p, false)
	}
	g := geometryOf(n.Attrs.(op.ConvTranspose2DAttrs).Geometry())
	c := convSizes(x, w, g)
	c.Cout = w[1] * g.Groups
	return c.ScratchSize(p, true)
}

// geometryOf is the geometry of a node, whose attributes were checked when its type was inferred.
func geometryOf(g op.ConvGeometry, err error) op.ConvGeometry {
	if err != nil {
		panic("BUG: cpu: " + err.Error())
	}
	return g
}

func convArgs(c *call, g op.ConvGeometry) kernels.Conv2DArgs {
	last := g.C == 3
	a := convSizes(c.in[0].Shape, c.in[1].Shape, g)
	a.X, a.XLast, a.Weight, a.Bias, a.Out, a.OutLast = f32(c.in[0]), last, weights(c.in[1]), optional(c, 2), f32(c.out), last
	return a
}

// convSizes are the arguments that follow from the shapes of image and weights. The caller sets Cout.
func convSizes(x, w []int, g op.ConvGeometry) kernels.Conv2DArgs {
	return kernels.Conv2DArgs{
		N: x[0], H: x[g.H], W: x[g.W], Cin: x[g.C], KH: w[2], KW: w[3],
		Stride: [2]int(g.Stride), Pad: [2]int(g.Padding), Dilation: [2]int(g.Dilation), OutputPad: [2]int(g.OutputPadding), Groups: g.Groups,
	}
}
