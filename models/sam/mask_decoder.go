package sam

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/hir"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/nn"
)

// maxPoints is the maximum number of prompt points in one run, padding included.
const maxPoints = 64

// finalEps is the default epsilon of nn.LayerNorm. Transformers uses it, too, for the last norm of the decoder.
const finalEps = 1e-5

// maxPrompts is the maximum number of prompts in one run of decode_batch. In a SAM of full size each takes 13 MB of the
// arena.
const maxPrompts = 8

// decode maps embeddings [1,C,g,g], points [1,N,2] and labels [1,N] to low_res_masks [1,M,4g,4g] and iou [1,M]. If the
// checkpoint takes mask prompts, there is also an input mask [1,1,4g,4g].
func decode(c config, root nn.Scope) {
	returnMasks(root.Graph)(decodePrompts(c, root, ir.Static(1), ir.Static(1), ir.Named("N"), c.maskChannels[0] > 0))
}

// decodeBatch is like decode for prompts [P,N,2] in one image, without mask prompts. It returns masks [P,M,4g,4g].
func decodeBatch(c config, root nn.Scope) {
	returnMasks(root.Graph)(decodePrompts(c, root, ir.Static(1), ir.Named("P"), ir.Named("N"), false))
}

func returnMasks(g *ir.Graph) func(masks, iou *ir.Node) {
	return func(masks, iou *ir.Node) {
		g.Return("low_res_masks", masks)
		g.Return("iou", iou)
	}
}

// decodePrompts returns masks [P,M,4g,4g] and iou [P,M] for P prompts of n points, in one image or in as many.
func decodePrompts(c config, root nn.Scope, images, prompts, n ir.Dim, masked bool) (masks, iou *ir.Node) {
	g := root.Graph
	s, prompt := root.At("mask_decoder"), root.At("prompt_encoder")
	embeddings := op.Input(g, "embeddings", ir.Type{DType: dtype.F32, Shape: ir.Shape{images, ir.Static(c.embed),
		ir.Static(c.grid), ir.Static(c.grid)}})
	points := op.Input(g, "points", ir.Type{DType: dtype.F32, Shape: ir.Shape{prompts, n, ir.Static(2)}})
	labels := op.Input(g, "labels", ir.Type{DType: dtype.I32, Shape: ir.Shape{prompts, n}})
	each := func(x *ir.Node) *ir.Node { // repeats x [1,n,C] for every prompt
		if x.Type.Shape[0] == prompts {
			return x
		}
		return op.Expand(x, ir.Shape{prompts, x.Type.Shape[1], x.Type.Shape[2]})
	}

	own := op.Concat(1, learned(s, "iou_token.weight", 1, c.embed), learned(s, "mask_tokens.weight", c.masks, c.embed))
	tokens := op.Concat(1, each(own), sparsePrompts(c, prompt, points, labels))
	src := op.Reshape(op.Transpose(embeddings, 0, 2, 3, 1),
		ir.Shape{images, ir.Static(c.grid * c.grid), ir.Static(c.embed)})
	dense := prompt.F32("no_mask_embed.weight", 1, c.embed)
	if masked {
		mask := op.Input(g, "mask", ir.TypeOf(dtype.F32, 1, 1, 4*c.grid, 4*c.grid))
		dense = densePrompt(c, prompt, mask, dense)
	}
	src = each(op.Add(src, dense))

	queries, keys := twoWay(c, s.At("transformer"), tokens, src, gridPositions(c, prompt))

	up := upscale(c, s.At("output_upscaling"),
		op.Reshape(keys, ir.Shape{prompts, ir.Static(c.grid), ir.Static(c.grid), ir.Static(c.embed)}))
	side, channels := 4*c.grid, c.embed/8
	var hyper []*ir.Node
	for i := range c.masks {
		token := op.Narrow(queries, 1, int(1+i), 1)
		hyper = append(hyper, mlp(s.At("output_hypernetworks_mlps", i), token, hyperLayers, c.embed, channels))
	}
	up = op.Reshape(up, ir.Shape{prompts, ir.Static(side * side), ir.Static(channels)})
	masks = op.MatMul(op.Concat(1, hyper...), up, op.MatMulAttrs{TransB: true})
	masks = op.Reshape(masks, ir.Shape{prompts, ir.Static(c.masks), ir.Static(side), ir.Static(side)})
	iou = mlp(s.At("iou_prediction_head"), op.Narrow(queries, 1, 0, 1), c.iouLayers, c.iouHidden, c.masks)
	return masks, op.Reshape(iou, ir.Shape{prompts, ir.Static(c.masks)})
}

// learned returns a table of learned tokens [n, C] as a batch of one.
func learned(s nn.Scope, name string, n, width int64) *ir.Node {
	return op.Reshape(s.F32(name, n, width), ir.ShapeOf(1, n, width))
}

// twoWay builds the transformer in which tokens attend to the image and the image to tokens. It is post-norm. Position
// encodings are added to queries and keys of every attention, never to values.
func twoWay(c config, s nn.Scope, tokens, src, srcPE *ir.Node) (queries, keys *ir.Node) {
	queries, keys = tokens, src
	for i := range c.decoderLayers {
		l := s.At("layers", i)
		if i == 0 { // the tokens are still equal to their positions, and the result of attention replaces them
			queries = attention(c, l.At("self_attn"), queries, queries, queries, c.embed)
		} else {
			q := op.Add(queries, tokens)
			queries = op.Add(queries, attention(c, l.At("self_attn"), q, q, queries, c.embed))
		}
		queries = l.At("norm1").LayerNorm(queries, c.decoderEps)

		queries = op.Add(
			queries, attention(c, l.At("cross_attn_token_to_image"), op.Add(queries, tokens), op.Add(keys, srcPE), keys,
				c.embed/2))
		queries = l.At("norm2").LayerNorm(queries, c.decoderEps)
		queries = op.Add(queries, l.At("mlp").MLP(queries, "lin1", "lin2", c.decoderHidden, c.embed, c.decoderAct))
		queries = l.At("norm3").LayerNorm(queries, c.decoderEps)

		keys = op.Add(
			keys, attention(c, l.At("cross_attn_image_to_token"), op.Add(keys, srcPE), op.Add(queries, tokens), queries,
				c.embed/2))
		keys = l.At("norm4").LayerNorm(keys, c.decoderEps)
	}
	queries = op.Add(
		queries, attention(c, s.At("final_attn_token_to_image"), op.Add(queries, tokens), op.Add(keys, srcPE), keys,
			c.embed/2))
	return s.At("norm_final_attn").LayerNorm(queries, finalEps), keys
}

// attention applies the attention with four projections at s. inner is the width between them.
func attention(c config, s nn.Scope, q, k, v *ir.Node, inner int64) *ir.Node {
	in := func(name string) hir.Projection { return s.At(name).Projection(c.embed, inner) }
	return hir.MultiheadAttention(q, k, v, int(c.decoderHeads), in("q_proj"), in("k_proj"), in("v_proj"),
		s.At("out_proj").Projection(inner, c.embed)).Named(s.Path())
}

// upscale maps tokens [1,g,g,C] to [1,4g,4g,C/8].
func upscale(c config, s nn.Scope, x *ir.Node) *ir.Node {
	double := op.ConvTransposeAttrs{Stride: []int{2, 2}, Padding: []int{0, 0}, OutputPadding: []int{0, 0},
		Dilation: []int{1, 1}, Layout: "nhwc"}
	x = op.ConvTranspose2D(x, s.Param("0.weight", c.embed, c.embed/4, 2, 2), s.F32("0.bias", c.embed/4), double).Named(
		s.At(0).Path())
	x = op.Gelu(hir.LayerNorm2d(x, s.Param("1.weight", c.embed/4), s.Param("1.bias", c.embed/4), neckEps, "nhwc"))
	x = op.ConvTranspose2D(x, s.Param("3.weight", c.embed/4, c.embed/8, 2, 2), s.F32("3.bias", c.embed/8),
		double).Named(s.At(3).Path())
	return op.Gelu(x)
}

// hyperLayers is the number of layers of the networks that compute the weights of a mask.
const hyperLayers = 3

// mlp applies linear layers with ReLU between them.
func mlp(s nn.Scope, x *ir.Node, layers, hidden, out int64) *ir.Node {
	for i := range layers - 1 {
		x = s.At("layers", i).Linear(x, hidden, "relu")
	}
	return s.At("layers", layers-1).Linear(x, out, "")
}
