package sam2

import (
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/hir"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/nn"
	"github.com/rlx-go/rlx/models/promptable"
)

// encode maps image [1,3,S,S], normalised pixels, to what promptable.SAM2.ReturnFeatures returns.
func encode(c config, root nn.Scope) {
	g, s := root.Graph, root.At("image_encoder")
	image := op.Input(g, "image", ir.TypeOf(dtype.F32, 1, 3, c.ImageSize, c.ImageSize))
	c.ReturnFeatures(root, neck(c, s.At("neck.convs"), backbone(c, s.At("trunk"), image, c.top+1)))
}

// neck maps results of stages [1,h,w,D] to levels [1,h,w,C] of the same sides (Lin et al., Feature Pyramid Networks,
// arXiv:1612.03144). The convolutions are numbered from the coarsest one.
func neck(c config, convs nn.Scope, stages []*ir.Node) []*ir.Node {
	levels := make([]*ir.Node, len(stages))
	for i := len(stages) - 1; i >= 0; i-- {
		levels[i] = promptable.Pointwise(convs.At(len(c.stages)-1-i, "conv"), stages[i], c.Embed)
		if i+1 < len(stages) && slices.Contains(c.topDown, i) {
			levels[i] = op.Add(levels[i], double(levels[i+1]))
		}
	}
	return levels
}

// double repeats each element of x [1,h,w,C] on both axes.
func double(x *ir.Node) *ir.Node {
	h, w, c := x.Type.Shape[1].Const, x.Type.Shape[2].Const, x.Type.Shape[3].Const
	x = op.Expand(op.Reshape(x, ir.ShapeOf(1, h, 1, w, 1, c)), ir.ShapeOf(1, h, 2, w, 2, c))
	return op.Reshape(x, ir.ShapeOf(1, 2*h, 2*w, c))
}

// backbone maps image [1,3,S,S] to the results [1,h,w,D] of the first stages of a Hiera (Ryali et al.,
// arXiv:2306.00989).
func backbone(c config, s nn.Scope, image *ir.Node, stages int) (out []*ir.Node) {
	patch, width := s.At("patch_embed.proj"), c.stages[0].width
	k, p := int(c.stride), int(c.padding)
	x := op.Conv2D(op.Transpose(image, 0, 2, 3, 1), patch.Param("weight", width, 3, c.kernel, c.kernel),
		patch.F32("bias", width), op.ConvAttrs{Stride: []int{k, k}, Padding: []int{p, p}, Dilation: []int{1, 1},
			Layout: op.NHWC}).Named(patch.Path())
	x = op.Add(x, positions(c, s, x.Type.Shape[1].Const)).Named(s.At("patch_embed").Path())
	for _, stage := range c.stages[:stages] {
		for _, b := range stage.blocks {
			x = transform(c, s.At("blocks", b.number), x, stage, b)
		}
		out = append(out, x)
	}
	return out
}

// transform is a pre-norm transformer block. The first block of a stage changes the width, and may halve the side.
func transform(c config, s nn.Scope, x *ir.Node, stage stage, b block) *ir.Node {
	h := s.At("norm1").LayerNorm(x, c.eps)
	if b.in != stage.width {
		x = s.At("proj").Linear(h, stage.width, "")
		if b.pool {
			x = pool(x)
		}
	}
	x = op.Add(x, attention(s.At("attn"), h, x.Type.Shape, stage, b)).Named(s.Path() + ".attn_residual")
	h = s.At("norm2").LayerNorm(x, c.eps)
	return op.Add(x, s.At("mlp").MLP(h, "layers.0", "layers.1", stage.hidden, stage.width, c.act)).Named(s.Path())
}

// pool halves the sides of x [n,h,w,C] and keeps the largest of four elements.
func pool(x *ir.Node) *ir.Node {
	return op.Pool(x, op.PoolAttrs{Kind: "max", Kernel: []int{2, 2}, Stride: []int{2, 2}, Layout: op.NHWC})
}

// attention applies self-attention over x [1,h,w,C], or inside windows of it, and returns a tensor of the shape result.
// A block that halves the side pools its queries. Windows that extend beyond the grid are padded with zero tokens after
// the norm, and attention treats these as any other keys.
func attention(s nn.Scope, x *ir.Node, result ir.Shape, stage stage, b block) *ir.Node {
	rows, columns := x.Type.Shape[1].Const, x.Type.Shape[2].Const
	if b.window > 0 {
		x = hir.WindowPartition(x, b.window)
		rows, columns = int64(b.window), int64(b.window)
	}
	n := x.Type.Shape[0].Const
	qkv := s.At("qkv").Linear(op.Reshape(x, ir.ShapeOf(n, rows*columns, b.in)), 3*stage.width, "")
	part := func(i int) *ir.Node { return op.Narrow(qkv, 2, i*int(stage.width), int(stage.width)) }
	q := part(0)
	if b.pool {
		q = pool(op.Reshape(q, ir.ShapeOf(n, rows, columns, stage.width)))
		rows, columns = rows/2, columns/2
		q = op.Reshape(q, ir.ShapeOf(n, rows*columns, stage.width))
	}
	o := op.Attention(q, part(1), part(2), op.AttentionOperands{},
		op.AttentionAttrs{Heads: int(stage.heads), Layout: op.BSE}).Named(s.Path())
	o = op.Reshape(o, ir.ShapeOf(n, rows, columns, stage.width))
	if b.window > 0 {
		o = hir.WindowReverse(o, int(rows), result)
	}
	return s.At("proj").Linear(o, stage.width, "")
}

// positions returns the position embedding [1,side,side,C]: a coarse table that is enlarged to the grid, and one for
// the tokens of a window, which repeats (Bolya et al., Window Attention is Bugged, arXiv:2311.05613).
func positions(c config, s nn.Scope, side int64) *ir.Node {
	width, h, w, t := c.stages[0].width, c.background[0], c.background[1], int(side/c.window0)
	x := op.Reshape(s.F32("pos_embed", 1, width, h, w), ir.ShapeOf(width, h, w))
	x = op.MatMul(x, cubic(s.Graph, w, side), op.MatMulAttrs{TransB: true}) // [C,h,side]
	x = op.Reshape(op.Transpose(x, 1, 2, 0), ir.ShapeOf(h, side*width))
	x = op.Reshape(op.MatMul(cubic(s.Graph, h, side), x, op.MatMulAttrs{}), ir.ShapeOf(1, side, side, width))
	window := op.Transpose(s.F32("pos_embed_window", 1, width, c.window0, c.window0), 0, 2, 3, 1)
	return op.Add(x, op.Tile(window, 1, t, t, 1))
}

// cubic returns the matrix [to,from] that resizes an axis by cubic convolution with a = -3/4 and half-pixel centres, as
// PyTorch's bicubic mode does. Beyond the ends of the axis its first and last element repeat. It folds to a constant.
func cubic(g *ir.Graph, from, to int64) *ir.Node {
	const a, reach = -0.75, 2 // reach: taps beyond an end
	number := func(v float64) *ir.Node { return op.Const(g, v, ir.TypeOf(dtype.F64)) }
	t := ir.TypeOf(dtype.F64, to, from+2*reach)
	// at is where an element of the result lies on the axis, tap is an element of the extended axis.
	at := op.Sub(op.Mul(op.Add(op.Iota(g, 0, t), number(0.5)), number(float64(from)/float64(to))), number(0.5))
	tap := op.Sub(op.Iota(g, 1, t), number(reach))
	d := op.Abs(op.Sub(at, tap))
	poly := func(c ...float64) *ir.Node { // Horner's scheme
		x := number(c[0])
		for _, v := range c[1:] {
			x = op.Add(op.Mul(x, d), number(v))
		}
		return x
	}
	near, far := poly(a+2, -(a+3), 0, 1), poly(a, -5*a, 8*a, -4*a)
	weight := op.Where(op.Le(d, number(1)), near, op.Where(op.Lt(d, number(2)), far, number(0)))
	ends := ir.TypeOf(dtype.F64, from+2*reach, from)
	inside := op.Clamp(op.Sub(op.Iota(g, 0, ends), number(reach)), 0, float64(from-1))
	of := op.Where(op.Eq(inside, op.Iota(g, 1, ends)), number(1), number(0))
	return op.Cast(op.MatMul(weight, of, op.MatMulAttrs{}), dtype.F32)
}
