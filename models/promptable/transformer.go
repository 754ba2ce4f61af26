package promptable

import (
	"github.com/rlx-go/rlx/core/hir"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/nn"
)

// learned returns a table of learned tokens [n, C] as a batch of one.
func learned(s nn.Scope, name string, n, width int64) *ir.Node {
	return op.Reshape(s.F32(name, n, width), ir.ShapeOf(1, n, width))
}

// twoWay builds the transformer in which tokens attend to the image and the image to tokens. It is post-norm. Position
// encodings are added to queries and keys of every attention, never to values.
func (d Decoder) twoWay(s nn.Scope, tokens, src, srcPE *ir.Node) (queries, keys *ir.Node) {
	queries, keys = tokens, src
	for i := range d.Layers {
		l := s.At("layers", i)
		if i == 0 { // the tokens are still equal to their positions, and the result of attention replaces them
			queries = d.attention(l.At("self_attn"), queries, queries, queries, d.Embed)
		} else {
			q := op.Add(queries, tokens)
			queries = op.Add(queries, d.attention(l.At("self_attn"), q, q, queries, d.Embed))
		}
		queries = l.At("norm1").LayerNorm(queries, d.Eps)

		queries = op.Add(
			queries, d.attention(l.At("cross_attn_token_to_image"), op.Add(queries, tokens), op.Add(keys, srcPE), keys,
				d.Inner))
		queries = l.At("norm2").LayerNorm(queries, d.Eps)
		queries = op.Add(queries, d.MLP(l.At("mlp"), queries))
		queries = l.At("norm3").LayerNorm(queries, d.Eps)

		keys = op.Add(
			keys, d.attention(l.At("cross_attn_image_to_token"), op.Add(keys, srcPE), op.Add(queries, tokens), queries,
				d.Inner))
		keys = l.At("norm4").LayerNorm(keys, d.Eps)
	}
	queries = op.Add(
		queries, d.attention(s.At("final_attn_token_to_image"), op.Add(queries, tokens), op.Add(keys, srcPE), keys,
			d.Inner))
	return s.At("norm_final_attn").LayerNorm(queries, finalEps), keys
}

// attention applies the attention with four projections at s. inner is the width between them.
func (d Decoder) attention(s nn.Scope, q, k, v *ir.Node, inner int64) *ir.Node {
	in := func(name string) hir.Projection { return s.At(name).Projection(d.Embed, inner) }
	return hir.MultiheadAttention(q, k, v, int(d.Heads), in("q_proj"), in("k_proj"), in("v_proj"),
		s.At("out_proj").Projection(inner, d.Embed)).Named(s.Path())
}

// upscale maps tokens [1,g,g,C] to [1,4g,4g,C/8]. It adds the finer features, if there are any.
func (d Decoder) upscale(decoder nn.Scope, x *ir.Node, finer []*ir.Node) *ir.Node {
	s := decoder.At("output_upscaling")
	add := func(i int, x *ir.Node) *ir.Node {
		if finer == nil {
			return x
		}
		return op.Add(x, finer[i])
	}
	double := op.ConvTransposeAttrs{Stride: []int{2, 2}, Padding: []int{0, 0}, OutputPadding: []int{0, 0},
		Dilation: []int{1, 1}, Layout: "nhwc"}
	x = op.ConvTranspose2D(x, s.Param("0.weight", d.Embed, d.Embed/4, 2, 2), s.F32("0.bias", d.Embed/4), double).Named(
		s.At(0).Path())
	x = op.Gelu(hir.LayerNorm2d(add(1, x), s.Param("1.weight", d.Embed/4), s.Param("1.bias", d.Embed/4), NormEps,
		"nhwc"))
	x = op.ConvTranspose2D(x, s.Param("3.weight", d.Embed/4, d.Embed/8, 2, 2), s.F32("3.bias", d.Embed/8),
		double).Named(s.At(3).Path())
	return op.Gelu(add(0, x))
}

// MLP applies linear layers with ReLU between them.
func MLP(s nn.Scope, x *ir.Node, layers, hidden, out int64) *ir.Node {
	for i := range layers - 1 {
		x = s.At("layers", i).Linear(x, hidden, "relu")
	}
	return s.At("layers", layers-1).Linear(x, out, "")
}
