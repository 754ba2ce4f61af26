package sam3

import (
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/hir"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/nn"
)

// encode maps image [1,3,S,S], normalised pixels, to the levels of the neck and, with the tracker, to what its decoder
// takes. The trunk computes tokens [1,g*g,C].
//
// If windows tile the grid, as in the published model, the trunk stores its tokens window by window, [windows,w,w,C],
// from the pixels to the last block. Each window is then a run of rows, and no block copies tokens to cut or join
// windows. The order of tokens does not matter for layers that work on single tokens; global attention only needs its
// rotations in the same order. Otherwise tokens are [1,g,g,C], and each block cuts windows.
func encode(c config, root nn.Scope) {
	g, s := root.Graph, root.At("trunk")
	side := c.grid * c.patch
	image := op.Input(g, "image", ir.TypeOf(dtype.F32, 1, 3, side, side))
	patch := s.At("patch_embed.proj")
	if n, w := c.grid/c.window, c.window*c.patch; c.tiled { // the windows of the image form the batch
		image = op.Transpose(op.Reshape(image, ir.ShapeOf(3, n, w, n, w)), 1, 3, 0, 2, 4)
		image = op.Reshape(image, ir.ShapeOf(n*n, 3, w, w))
	}
	x := hir.PatchEmbed(image, patch.Param("weight", c.width, 3, c.patch, c.patch),
		op.Const(g, 0, ir.TypeOf(dtype.F32, c.width))).Named(patch.Path())
	x = op.Add(x, positions(c, s)).Named(s.At("patch_embed").Path())
	x = s.At("ln_pre").LayerNorm(x, c.eps)
	for i, window := range c.windows {
		x = block(c, s.At("blocks", i), x, window)
	}
	if c.tiled {
		x = hir.WindowReverse(x, int(c.window), ir.ShapeOf(1, c.grid, c.grid, c.width))
	}
	g.Return("tokens", op.Reshape(x, ir.ShapeOf(1, c.grid*c.grid, c.width)))
	returnLevels(g, neck(c, root.At("convs"), x))
	if c.tracker != nil {
		returnClicks(c, root, x)
	}
}

// positions returns the learned position embeddings, tiled (not resized) from the side that they were trained with to
// the grid. The result is [1,g,g,C] or, with tiled windows, one row per window; all windows may share one.
func positions(c config, s nn.Scope) *ir.Node {
	p := s.F32("pos_embed", 1, c.positions, c.width)
	n := c.pretrained * c.pretrained
	p = op.Reshape(op.Narrow(p, 1, int(c.positions-n), int(n)), ir.ShapeOf(1, c.pretrained, c.pretrained, c.width))
	if c.tiled && c.pretrained == c.window {
		return p
	}
	times := int((c.grid + c.pretrained - 1) / c.pretrained)
	if times > 1 {
		p = op.Tile(p, 1, times, times, 1)
	}
	if int64(times)*c.pretrained != c.grid {
		p = op.Narrow(op.Narrow(p, 1, 0, int(c.grid)), 2, 0, int(c.grid))
	}
	if c.tiled {
		p = hir.WindowPartition(p, int(c.window))
	}
	return p
}

// block is a pre-norm transformer block.
func block(c config, s nn.Scope, x *ir.Node, window int) *ir.Node {
	h := attention(c, s.At("attn"), s.At("norm1").LayerNorm(x, c.eps), window)
	x = op.Add(x, h).Named(s.Path() + ".attn_residual")
	h = s.At("norm2").LayerNorm(x, c.eps)
	return op.Add(x, s.At("mlp").MLP(h, "fc1", "fc2", c.hidden, c.width, c.act)).Named(s.Path())
}

// attention applies self-attention over the grid, or inside windows of it. Windows that extend beyond the grid are
// padded with zero tokens after the norm, and attention treats these as any other keys.
func attention(c config, s nn.Scope, x *ir.Node, window int) *ir.Node {
	shape, side := x.Type.Shape, c.grid
	if window > 0 {
		side = int64(window)
	}
	cut := window > 0 && !c.tiled
	if cut {
		x = hir.WindowPartition(x, window)
	}
	n, _ := x.Type.Shape.Numel()
	x = op.Reshape(x, ir.ShapeOf(n.Const/(side*side*c.width), side*side, c.width))
	cos, sin := rotation(c, s.Graph, side)
	turn := func(x *ir.Node, start int64) *ir.Node {
		return op.Rope(x, op.RopeOperands{Cos: cos, Sin: sin},
			op.RopeAttrs{HeadDim: int(c.width / c.heads), Style: op.GPTJ, Layout: op.BSE, Heads: int(c.heads),
				Start: int(start)})
	}
	qkv := s.At("qkv").Linear(x, 3*c.width, "")
	q, k, v := turn(qkv, 0), turn(qkv, c.width), op.Narrow(qkv, 2, int(2*c.width), int(c.width))
	o := op.Attention(q, k, v, op.AttentionOperands{}, op.AttentionAttrs{Heads: int(c.heads), Layout: op.BSE}).Named(
		s.Path())
	if cut {
		o = hir.WindowReverse(
			op.Reshape(o, ir.Shape{o.Type.Shape[0], ir.Static(side), ir.Static(side), ir.Static(c.width)}), window,
			shape)
	} else {
		o = op.Reshape(o, shape)
	}
	return s.At("proj").Linear(o, c.width, "")
}

// rotation returns cosine and sine [side*side, D/2] of the angles by which the pairs of a head with D elements rotate
// (Heo et al., arXiv:2403.13298, axial). The first half of the pairs rotates by the x of the token, the other by its y,
// at frequencies theta^(-2j/(D/2)). Positions count within the window; in global attention they are scaled as if the
// grid were as large as a window. Both fold to constants.
func rotation(c config, g *ir.Graph, side int64) (cos, sin *ir.Node) {
	quarter := c.width / c.heads / 4
	number := func(v float64) *ir.Node { return op.Const(g, v, ir.TypeOf(dtype.F64)) }
	t := ir.TypeOf(dtype.F64, side, side, quarter)
	frequency := op.Exp(op.Mul(op.Iota(g, 2, t), number(-math.Log(c.theta)/float64(quarter))))
	step := number(float64(c.window) / float64(side))
	angle := func(axis int) *ir.Node { return op.Mul(op.Mul(op.Iota(g, axis, t), step), frequency) }
	angles := op.Concat(2, angle(1), angle(0))
	if c.tiled && side == c.grid {
		angles = hir.WindowPartition(op.Reshape(angles, ir.ShapeOf(1, side, side, 2*quarter)), int(c.window))
	}
	angles = op.Reshape(angles, ir.ShapeOf(side*side, 2*quarter))
	return op.Cast(op.Cos(angles), dtype.F32), op.Cast(op.Sin(angles), dtype.F32)
}
