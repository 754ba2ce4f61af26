package sam

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/hir"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/nn"
	"github.com/rlx-go/rlx/models/promptable"
)

// encode maps image [1,3,S,S], normalised pixels, to embeddings [1,C,g,g].
func encode(c config, root nn.Scope) { encodeImages(c, root, ir.Static(1)) }

// encodeBatch is like encode for images [B,3,S,S].
func encodeBatch(c config, root nn.Scope) { encodeImages(c, root, ir.Named("B")) }

func encodeImages(c config, root nn.Scope, images ir.Dim) {
	g, s := root.Graph, root.At("image_encoder")
	side := ir.Static(c.imageSize)
	image := op.Input(g, "image", ir.Type{DType: dtype.F32, Shape: ir.Shape{images, ir.Static(3), side, side}})
	patch := s.At("patch_embed.proj")
	x := hir.PatchEmbed(image, patch.Param("weight", c.width, 3, c.patch, c.patch), patch.Param("bias", c.width)).Named(
		patch.Path())
	if c.absPos {
		x = op.Add(x, s.F32("pos_embed", 1, c.grid, c.grid, c.width)).Named(s.At("patch_embed").Path())
	}
	for i := range c.windows {
		x = block(c, s.At("blocks", i), x, c.windows[i])
	}
	g.Return("embeddings", neck(c, s.At("neck"), x))
}

// block is a pre-norm transformer block.
func block(c config, s nn.Scope, x *ir.Node, window int) *ir.Node {
	a := s.At("attn")
	qkv, proj := a.At("qkv").ProjectionIf(c.qkvBias, c.width, 3*c.width), a.At("proj").Projection(c.width, c.width)
	if qkv.Bias == nil {
		qkv.Bias = op.Const(s.Graph, 0, ir.TypeOf(dtype.F32, 3*c.width))
	}
	relH, relW := relPos(c, a, c.relRows, "rel_pos_h", window), relPos(c, a, c.relColumns, "rel_pos_w", window)
	h := s.At("norm1").LayerNorm(x, c.encoderEps)
	h = hir.SAMAttention(h, qkv.Weight, qkv.Bias, relH, relW, proj.Weight, proj.Bias,
		hir.SAMAttentionAttrs{Heads: int(c.heads), Window: window}).Named(a.Path())
	x = op.Add(x, h).Named(s.Path() + ".attn_residual")
	h = s.At("norm2").LayerNorm(x, c.encoderEps)
	return op.Add(x, s.At("mlp").MLP(h, "lin1", "lin2", c.hidden, c.width, c.encoderAct)).Named(s.Path())
}

// relPos returns a table of relative positions. If the checkpoint has no table or does not use it, the result is zero,
// because only attention with tables is fused.
func relPos(c config, attn nn.Scope, used bool, name string, window int) *ir.Node {
	side := c.grid
	if window > 0 {
		side = int64(window)
	}
	if !c.relPos || !used {
		return op.Const(attn.Graph, 0, ir.TypeOf(dtype.F32, 2*side-1, c.width/c.heads))
	}
	return attn.Param(name, 2*side-1, c.width/c.heads)
}

// neck maps tokens [1,g,g,D] to embeddings [1,C,g,g]. It keeps channels last until the end.
func neck(c config, s nn.Scope, x *ir.Node) *ir.Node {
	w := s.Param("0.weight", c.embed, c.width, 1, 1)
	x = hir.Linear(x, op.Reshape(w, ir.ShapeOf(c.embed, c.width)), nil, "").Named(s.At(0).Path()) // a 1x1 convolution
	x = hir.LayerNorm2d(x, s.Param("1.weight", c.embed), s.Param("1.bias", c.embed), promptable.NormEps, "nhwc").Named(
		s.At(1).Path())
	x = op.Conv2D(x, s.Param("2.weight", c.embed, c.embed, 3, 3), nil,
		op.ConvAttrs{Stride: []int{1, 1}, Padding: []int{1, 1}, Dilation: []int{1, 1}, Layout: "nhwc"}).Named(s.At(
		2).Path())
	x = hir.LayerNorm2d(x, s.Param("3.weight", c.embed), s.Param("3.bias", c.embed), promptable.NormEps, "nhwc").Named(
		s.At(3).Path())
	return op.Transpose(x, 0, 3, 1, 2)
}
