package backend

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/conv"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/reduce"
)

var (
	_ = register(
		kernel{op: "pool", takes: "(f32|f64|i8|i16|i32|i64|u8|u32)", scratch: windowScratch, run: func(c *call) error {
			elements[c.in[0].DType].windows(c, windowsOf(c.node, c.in[0].Shape, c.out.Shape))
			return nil
		}})
	_ = register(kernel{op: "adaptive_avg_pool", takes: "(f32|f64)", scratch: windowScratch, run: func(c *call) error {
		elements[c.in[0].DType].windows(c, windowsOf(c.node, c.in[0].Shape, c.out.Shape))
		return nil
	}})
	_ = register(kernel{op: "im2col", takes: "(any)", run: im2cols.run})
)

func windowScratch(p *pool.Pool, n *ir.Node, _ product.Precision) pool.Size {
	if n.Type.DType != dtype.F32 {
		return pool.Size{}
	}
	g := windowsOf(n, n.Graph.Syms.Largest(n.In[0].Type.Shape), n.Graph.Syms.Largest(n.Type.Shape))
	return g.ScratchSize(p)
}

// windowsOf returns the arguments for pooling a tensor of shape in to shape out.
func windowsOf(n *ir.Node, in, out []int) (w reduce.WindowArgs) {
	var g op.Geometry
	if a, ok := n.Attrs.(op.PoolAttrs); ok {
		g = geometryOf(a.Geometry())
		w.Op, _ = reduce.Parse(a.Kind)
		w.Kernel, w.Stride, w.Pad = g.Kernel, g.Stride, g.Padding
	} else {
		g = geometryOf(n.Attrs.(op.AdaptiveAvgPoolAttrs).Geometry())
		w.Op, w.Adaptive = reduce.Mean, true
	}
	w.Outer, w.Inner, w.In = g.Sizes(in)
	_, _, w.Out = g.Sizes(out)
	if !g.Last {
		w.Outer, w.Inner = w.Outer*w.Inner, 1
	}
	return w
}

// im2cols has one variant per element size, since im2col copies elements without computing.
var im2cols = bySize{im2col[uint8], im2col[uint16], im2col[uint32], im2col[int64]}

func im2col[T tensor.Element](c *call) {
	g := geometryOf(c.node.Attrs.(op.Im2ColAttrs).Geometry())
	n, channels, size := g.Sizes(c.in[0].Shape)
	out := g.OutSizes(size)
	pair := func(x [3]int) [2]int { return [2]int{x[1], x[2]} }
	conv.Im2Col(
		c.pool, conv.Im2ColArgs{N: n, C: channels, In: pair(size), Out: pair(out), Kernel: pair(g.Kernel),
			Stride: pair(g.Stride),
			Pad:    pair(g.Padding), Dilation: pair(g.Dilation)}, view[T](c.out), view[T](c.in[0]))
}
