package backend

import (
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/raster"
)

var (
	_ = register(
		kernel{op: "gaussian_splat_render", takes: "(f32...)",
			scratch: splatScratch(func(n *ir.Node, splats int) pool.Size {
				return raster.RenderScratch(splats, n.Attrs.(op.GaussianSplatRenderAttrs).Height)
			}), run: func(c *call) error {
				a := c.node.Attrs.(op.GaussianSplatRenderAttrs)
				return raster.Render(c.pool, f32(c.out), splatScene(c), f32(c.in[6]), a.Width, a.Height)
			}})
	_ = register(
		kernel{op: "gaussian_splat_render_backward", takes: "(f32...)",
			scratch: splatScratch(func(n *ir.Node, splats int) pool.Size {
				return raster.BackwardScratch(splats, n.Attrs.(op.GaussianSplatRenderBackwardAttrs).Height)
			}), run: func(c *call) error {
				a := c.node.Attrs.(op.GaussianSplatRenderBackwardAttrs)
				g := &raster.Gradient{Positions: f32(c.results[0]), Scales: f32(c.results[1]),
					Rotations: f32(c.results[2]), Opacities: f32(c.results[3]), Colors: f32(c.results[4]),
					SH: f32(c.results[5])}
				return raster.Backward(c.pool, g, splatScene(c), f32(c.in[6]), f32(c.in[7]), a.Width, a.Height,
					a.LossGradClip)
			}})
	_ = register(
		kernel{op: "gaussian_splat_prepare", takes: "(f32...)",
			scratch: splatScratch(func(_ *ir.Node, splats int) pool.Size { return raster.PrepareScratch(splats) }),
			run: func(c *call) error {
				return raster.Prepare(c.pool, f32(c.results[0]), f32(c.results[1]), view[int32](c.results[2]),
					view[int32](c.results[3]), splatScene(c), f32(c.in[6]),
					c.node.Attrs.(op.GaussianSplatPrepareAttrs).Grid())
			}})
	_ = register(
		kernel{op: "gaussian_splat_rasterize", takes: "(f32, f32, i32, i32, f32)",
			scratch: func(_ *pool.Pool, n *ir.Node, _ product.Precision) pool.Size {
				return raster.RasterizeScratch(n.Graph.Syms.Largest(n.In[0].Type.Shape)[0])
			}, run: func(c *call) error {
				return raster.Rasterize(c.pool, f32(c.out), f32(c.in[0]), f32(c.in[1]), view[int32](c.in[2]),
					view[int32](c.in[3]), f32(c.in[4]), c.node.Attrs.(op.GaussianSplatRasterizeAttrs).Grid())
			}})
)

// splatScratch returns a kernel's scratch for the largest number of splats.
func splatScratch(size func(n *ir.Node, splats int) pool.Size) func(*pool.Pool, *ir.Node, product.Precision) pool.Size {
	return func(_ *pool.Pool, n *ir.Node, _ product.Precision) pool.Size {
		return size(n, n.Graph.Syms.Largest(n.In[3].Type.Shape)[0])
	}
}

// splatScene returns the scene of a call.
func splatScene(c *call) *raster.Scene {
	s := &raster.Scene{N: c.in[3].Shape[0], Positions: f32(c.in[0]), Scales: f32(c.in[1]), Rotations: f32(c.in[2]),
		Opacities: f32(c.in[3]), Colors: f32(c.in[4]), SH: f32(c.in[5])}
	s.C = len(s.SH) / (3 * s.N)
	return s
}
