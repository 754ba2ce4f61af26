package sam3

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/nn"
)

// encodeText maps the tokens ids [1,N] of a text, with those of its begin and end, to features [1,N,C]. Padding is not
// needed: no token sees those after it, and the detector masks padding out.
func encodeText(c config, root nn.Scope) {
	g, d := root.Graph, c.detector.text
	n := ir.Named("N")
	ids := op.Input(g, "ids", ir.Type{DType: dtype.I32, Shape: ir.Shape{ir.Static(1), n}})
	s := root.At("text_encoder.text_model")
	at := op.Iota(g, 1, ir.Type{DType: dtype.I32, Shape: ir.Shape{ir.Static(1), n}})
	x := op.Add(op.Gather(s.F32("embeddings.token_embedding.weight", d.vocabulary, d.width), ids, 0),
		op.Gather(s.F32("embeddings.position_embedding.weight", d.positions, d.width), at, 0))
	for i := range d.layers {
		l := s.At("encoder.layers", i)
		h, a := l.At("layer_norm1").LayerNorm(x, d.eps), l.At("self_attn")
		h = op.Attention(a.At("q_proj").Linear(h, d.width, ""), a.At("k_proj").Linear(h, d.width, ""),
			a.At("v_proj").Linear(h, d.width, ""), op.AttentionOperands{},
			op.AttentionAttrs{Heads: int(d.heads), Layout: op.BSE, Mask: op.MaskCausal}).Named(a.Path())
		x = op.Add(x, a.At("out_proj").Linear(h, d.width, ""))
		h = l.At("layer_norm2").LayerNorm(x, d.eps)
		x = op.Add(x, l.At("mlp").MLP(h, "fc1", "fc2", d.hidden, d.width, d.act)).Named(l.Path())
	}
	x = s.At("final_layer_norm").LayerNorm(x, d.eps)
	g.Return("text", root.At("text_projection").Linear(x, c.fpn, ""))
}

// geometry encodes boxes [1,M,4], center and size in parts of the image, with labels [1,M]. The result is [1,M+1,C]: a
// token for each box, and one for them all.
func geometry(c config, s nn.Scope, boxes, labels, image, pos *ir.Node) *ir.Node {
	d, size := c.detector, c.detector.roi
	x := s.At("boxes_direct_project").Linear(boxes, c.fpn, "")
	pooled := pool(c, boxes, s.At("vision_layer_norm").LayerNorm(image, normEps))
	weight := s.At("boxes_pool_project").Param("weight", c.fpn, c.fpn, size, size)
	weight = op.Reshape(op.Transpose(weight, 0, 2, 3, 1), ir.ShapeOf(c.fpn, size*size*c.fpn))
	x = op.Add(x, op.Add(op.MatMul(pooled, weight, op.MatMulAttrs{TransB: true}),
		s.At("boxes_pool_project").F32("bias", c.fpn)))
	at := op.Split(boxes, 2, 4)
	places := op.Concat(2, embedded(at[1], c.fpn/2), embedded(at[0], c.fpn/2), at[3], at[2])
	x = op.Add(x, s.At("boxes_pos_enc_project").Linear(places, c.fpn, ""))
	x = op.Add(x, op.Gather(s.F32("label_embed.weight", 2, c.fpn), labels, 0))
	x = op.Concat(1, x, op.Reshape(s.F32("cls_embed.weight", 1, c.fpn), ir.ShapeOf(1, 1, c.fpn)))
	x = s.At("prompt_layer_norm").LayerNorm(s.At("final_proj").Linear(x, c.fpn, ""), normEps)
	for i := range d.geometry.layers {
		x = d.geometry.preNorm(s.At("layers", i), x, nil, image, pos)
	}
	return s.At("output_layer_norm").LayerNorm(x, normEps)
}

// pool returns the features [1,M,R*R*C] of image [1,g*g,C] in the RxR cells of each box (He et al., arXiv:1703.06870,
// RoIAlign). A cell has the mean of samples between the tokens, at most one token apart. Sampling is linear in x and y
// apart, so it is a product with a matrix for each axis.
func pool(c config, boxes, image *ir.Node) *ir.Node {
	m, size, n := boxes.Type.Shape[1], c.detector.roi, c.grid
	edges := op.Split(corners(boxes), 2, 4)
	x, y := samples(c, edges[0], edges[2]), samples(c, edges[1], edges[3]) // [M,R,g]
	image = op.Reshape(image, ir.ShapeOf(1, n, n*c.fpn))
	down := op.MatMul(y, image, op.MatMulAttrs{}) // [M,R,g*C]
	down = op.Reshape(down, ir.Shape{m, ir.Static(size), ir.Static(n), ir.Static(c.fpn)})
	x = op.Reshape(x, ir.Shape{m, ir.Static(1), ir.Static(size), ir.Static(n)})
	cells := op.MatMul(x, down, op.MatMulAttrs{}) // [M,Ry,Rx,C]
	return op.Reshape(cells, ir.Shape{ir.Static(1), m, ir.Static(size * size * c.fpn)})
}

// samples returns the weights [M,R,g] of the tokens of an axis in the cells between low and high [1,M,1].
func samples(c config, low, high *ir.Node) *ir.Node {
	g, m, size := low.Graph, low.Type.Shape[1], c.detector.roi
	shape := ir.Shape{m, ir.Static(1), ir.Static(1), ir.Static(1)}
	count := func(axis int, n int64) *ir.Node { // 0, 1, ... along an axis of [M,R,S,g]
		dims := []int64{1, 1, 1, 1}
		dims[axis] = n
		return op.Cast(op.Iota(g, axis, ir.TypeOf(dtype.I32, dims...)), dtype.F32)
	}
	scale := number(g, float64(c.grid))
	low, high = op.Mul(op.Reshape(low, shape), scale), op.Mul(op.Reshape(high, shape), scale)
	cell := op.Mul(op.Max(op.Sub(high, low), number(g, 1)), number(g, 1/float64(size)))
	most := (c.grid + size - 1) / size
	n := op.Clamp(op.Ceil(cell), 1, float64(most)) // samples in a cell
	sample, half := count(2, most), number(g, 0.5)
	at := op.Add(low, op.Mul(cell, op.Add(count(1, size), op.Div(op.Add(sample, half), n))))
	inside := op.And(op.Lt(sample, n), op.And(op.Ge(at, number(g, -1)), op.Le(at, scale)))
	at = op.Clamp(at, 0, float64(c.grid-1))
	near := op.Relu(op.Sub(number(g, 1), op.Abs(op.Sub(at, count(3, c.grid)))))
	return op.ReduceSum(op.Where(inside, op.Div(near, n), number(g, 0)), false, 2)
}
