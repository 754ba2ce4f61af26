package backend

import (
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/layout"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
)

var _ = register(kernel{op: "grid_sample", takes: "(f32, f32)",
	scratch: func(_ *pool.Pool, n *ir.Node, _ product.Precision) pool.Size {
		return layout.GridSampleScratch(samplesOf(n.Attrs.(op.GridSampleAttrs), largest(n, 0), 0))
	},
	run: func(c *call) error {
		g := samplesOf(c.node.Attrs.(op.GridSampleAttrs), c.in[0].Shape, tensor.Numel(c.in[1].Shape[1:]))
		g.Dst, g.Images, g.Grid = f32(c.out), f32(c.in[0]), f32(c.in[1])
		layout.GridSample(c.pool, g)
		return nil
	}})

// samplesOf returns the arguments for images of shape x, each with a grid of so many numbers.
func samplesOf(a op.GridSampleAttrs, x []int, grid int) layout.Samples {
	g := layout.Samples{Count: x[0], Channels: x[1], Axes: len(x) - 2, Positions: grid / (len(x) - 2), Taps: a.Taps(),
		Corners: a.Corners}
	copy(g.Size[:], x[2:])
	switch a.Padding {
	case op.GridBorder:
		g.Padding = layout.PadBorder
	case op.GridReflection:
		g.Padding = layout.PadReflection
	}
	return g
}
