package sam3

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/hir"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/nn"
)

// Epsilons of the norms of all parts but text encoder and trunk, and limits of the detector's logits.
const (
	normEps       = 1e-5
	maxScore      = 12
	maxPresence   = 10
	inverseEps    = 1e-3 // inverse sigmoids are finite
	maxBoxes      = 16   // box prompts of a run
	pixelGroups   = 8    // groups of channels that the pixel decoder normalises
	queryLandmark = "detr_decoder.query_embed.weight"
)

// detect finds the objects that a prompt describes. Inputs are the features of an image, as encode returns them, the
// text's of encode_text, and with boxes the prompt's boxes [1,M,4] as center x and y, width and height in parts of the
// image, with labels [1,M]: 1 for an example, 0 for a counterexample. A result has a row for each query.
func detect(c config, root nn.Scope, boxes bool) {
	g, d := root.Graph, c.detector
	features := make([]*ir.Node, 3)
	for i := range features {
		side := c.grid << (2 - i)
		features[i] = op.Input(g, fmt.Sprintf("level%d.features", i), ir.TypeOf(dtype.F32, 1, c.fpn, side, side))
	}
	prompt := op.Input(g, "text", ir.Type{DType: dtype.F32,
		Shape: ir.Shape{ir.Static(1), ir.Named("N"), ir.Static(c.fpn)}})
	image := rows(features[2])
	pos := rows(sine(g, c.fpn, c.grid))
	if boxes {
		m := ir.Named("M")
		at := op.Input(g, "boxes", ir.Type{DType: dtype.F32, Shape: ir.Shape{ir.Static(1), m, ir.Static(4)}})
		labels := op.Input(g, "labels", ir.Type{DType: dtype.I32, Shape: ir.Shape{ir.Static(1), m}})
		prompt = op.Concat(1, prompt, geometry(c, root.At("geometry_encoder"), at, labels, image, pos))
	}
	memory := image
	for i := range d.encoder.layers {
		memory = d.encoder.preNorm(root.At("detr_encoder.layers", i), memory, pos, prompt, nil)
	}
	queries, at, presence := decode(c, root.At("detr_decoder"), memory, pos, prompt)
	g.Return("memory", memory)
	g.Return("boxes", corners(at))
	g.Return("logits", scores(d, root.At("dot_product_scoring"), queries, prompt))
	g.Return("presence", presence)
	masks, semantic := masks(c, root.At("mask_decoder"), queries, memory, prompt, features)
	g.Return("masks", masks)
	g.Return("semantic", semantic)
}

// rows maps x [1,C,h,w] to [1,h*w,C].
func rows(x *ir.Node) *ir.Node {
	s := x.Type.Shape
	return op.Transpose(op.Reshape(x, ir.ShapeOf(1, s[1].Const, s[2].Const*s[3].Const)), 0, 2, 1)
}

// A stack has the sizes of the layers of a part of the detector.
type stack struct {
	layers               int
	width, hidden, heads int64
	act                  string
}

// attend is attention of q over k and v with its projections. A bias [1,H,Sq,Sk] is added to the scores.
func attend(s nn.Scope, heads int64, q, k, v, bias *ir.Node) *ir.Node {
	width := q.Type.Shape[2].Const
	a := op.AttentionAttrs{Heads: int(heads), Layout: op.BSE}
	if bias != nil {
		a.Mask = op.MaskBias
	}
	o := op.Attention(s.At("q_proj").Linear(q, width, ""), s.At("k_proj").Linear(k, width, ""),
		s.At("v_proj").Linear(v, width, ""), op.AttentionOperands{Mask: bias}, a).Named(s.Path())
	return s.At("o_proj").Linear(o, width, "")
}

// preNorm is a layer of the geometry encoder and of the DETR encoder: x attends to itself, then to other. Positions
// are added to the queries and keys of x, or to the keys of other; either may be nil.
func (p stack) preNorm(s nn.Scope, x, pos, other, otherPos *ir.Node) *ir.Node {
	plus := func(x, pos *ir.Node) *ir.Node {
		if pos == nil {
			return x
		}
		return op.Add(x, pos)
	}
	h := s.At("layer_norm1").LayerNorm(x, normEps)
	turned := plus(h, pos)
	x = op.Add(x, attend(s.At("self_attn"), p.heads, turned, turned, h, nil))
	h = s.At("layer_norm2").LayerNorm(x, normEps)
	x = op.Add(x, attend(s.At("cross_attn"), p.heads, h, plus(other, otherPos), other, nil))
	h = s.At("layer_norm3").LayerNorm(x, normEps)
	return op.Add(x, s.At("mlp").MLP(h, "fc1", "fc2", p.hidden, p.width, p.act)).Named(s.Path())
}

// perceptron is an MLP with ReLU whose layers are named layer1 to layerN.
func perceptron(s nn.Scope, x *ir.Node, widths ...int64) *ir.Node {
	for i, n := range widths {
		act := "relu"
		if i == len(widths)-1 {
			act = ""
		}
		l, in := s.At(fmt.Sprint("layer", i+1)), x.Type.Shape[x.Type.Rank()-1].Const
		p := l.Projection(in, n)
		x = hir.Linear(x, p.Weight, p.Bias, act) // without a name: the decoder's layers share some
	}
	return x
}

// number returns a constant of f32.
func number(g *ir.Graph, v float64) *ir.Node { return op.Const(g, v, ir.TypeOf(dtype.F32)) }

// embedded returns the encoding [1,M,n] of coordinates x [1,M,1] from 0 to 1: sines and cosines alternate, at the
// frequencies 2π*10000^(-2j/n).
func embedded(x *ir.Node, n int64) *ir.Node {
	g, t := x.Graph, ir.TypeOf(dtype.F64, 1, 1, n/2)
	constant := func(v float64) *ir.Node { return op.Const(g, v, ir.TypeOf(dtype.F64)) }
	frequency := op.Mul(op.Exp(op.Mul(op.Iota(g, 2, t), constant(-2*math.Log(10000)/float64(n)))),
		constant(2*math.Pi))
	angle := op.Mul(x, op.Cast(frequency, dtype.F32))
	return op.Reshape(op.Stack(3, op.Sin(angle), op.Cos(angle)), ir.Shape{x.Type.Shape[0], x.Type.Shape[1],
		ir.Static(n)})
}

// decode refines the boxes of the queries layer by layer. It returns the queries [1,Q,C] after the last, their boxes
// [1,Q,4] as center and size, and the logit [1,1] that the image has any such object.
func decode(c config, s nn.Scope, memory, pos, prompt *ir.Node) (queries, boxes, presence *ir.Node) {
	g, d := s.Graph, c.detector
	n := d.queries
	table := func(name string, rows, width int64) *ir.Node {
		return op.Reshape(s.F32(name+".weight", rows, width), ir.ShapeOf(1, rows, width))
	}
	x := op.Concat(1, table("presence_token", 1, c.fpn), table("query_embed", n, c.fpn))
	boxes = op.Sigmoid(table("reference_points", n, 4))
	keys := op.Add(memory, pos)
	none := op.Const(g, 0, ir.TypeOf(dtype.F32, 1, 1, c.fpn)) // the presence token has no position
	for i := range d.decoder.layers {
		at := op.Split(boxes, 2, 4)
		sines := op.Concat(2, embedded(at[1], c.fpn/2), embedded(at[0], c.fpn/2), embedded(at[2], c.fpn/2),
			embedded(at[3], c.fpn/2))
		place := op.Concat(1, none, perceptron(s.At("ref_point_head"), sines, c.fpn, c.fpn))
		bias := op.Pad(distances(c, s, boxes), []int{0, 0, 1, 0}, []int{0, 0, 0, 0}, 0)
		l, heads := s.At("layers", i), d.decoder.heads
		q := op.Add(x, place)
		x = l.At("self_attn_layer_norm").LayerNorm(op.Add(x, attend(l.At("self_attn"), heads, q, q, x, nil)), normEps)
		x = l.At("text_cross_attn_layer_norm").LayerNorm(
			op.Add(x, attend(l.At("text_cross_attn"), heads, op.Add(x, place), prompt, prompt, nil)), normEps)
		x = l.At("vision_cross_attn_layer_norm").LayerNorm(
			op.Add(x, attend(l.At("vision_cross_attn"), heads, op.Add(x, place), keys, memory, bias)), normEps)
		x = l.At("mlp_layer_norm").LayerNorm(
			op.Add(x, l.At("mlp").MLP(x, "fc1", "fc2", d.decoder.hidden, c.fpn, d.decoder.act)), normEps)
		norm := s.At("output_layer_norm")
		queries = op.LayerNorm(op.Narrow(x, 1, 1, int(n)), norm.F32("weight", c.fpn), norm.F32("bias", c.fpn), normEps)
		move := perceptron(s.At("box_head"), queries, c.fpn, c.fpn, 4)
		odds := op.Log(op.Div(op.Clamp(boxes, inverseEps, 1),
			op.Clamp(op.Sub(number(g, 1), boxes), inverseEps, 1)))
		boxes = op.Sigmoid(op.Add(move, odds))
	}
	token := s.At("presence_layer_norm").LayerNorm(op.Narrow(x, 1, 0, 1), normEps)
	presence = op.Clamp(perceptron(s.At("presence_head"), token, c.fpn, c.fpn, 1), -maxPresence, maxPresence)
	return queries, boxes, op.Reshape(presence, ir.ShapeOf(1, 1))
}

// corners maps boxes [1,Q,4] of center and size to the corners x0, y0, x1, y1.
func corners(boxes *ir.Node) *ir.Node {
	center, size := op.Narrow(boxes, 2, 0, 2), op.Mul(op.Narrow(boxes, 2, 2, 2), number(boxes.Graph, 0.5))
	return op.Concat(2, op.Sub(center, size), op.Add(center, size))
}

// distances returns the bias [1,H,Q,g*g] of the scores between boxes and tokens. It is the sum of an MLP of the
// distances in x, of a token to both sides of the box, and of one in y. Distances are on a logarithmic scale.
func distances(c config, s nn.Scope, boxes *ir.Node) *ir.Node {
	g, heads, n := s.Graph, c.detector.decoder.heads, c.detector.queries
	edges := op.Split(corners(boxes), 2, 4)
	axis := func(name string, low, high *ir.Node) *ir.Node { // [1,Q,g,H]
		at := op.Mul(op.Cast(op.Iota(g, 2, ir.TypeOf(dtype.I32, 1, 1, c.grid)), dtype.F32),
			number(g, 1/float64(c.grid)))
		x := op.Mul(op.Stack(3, op.Sub(at, low), op.Sub(at, high)), number(g, 8))
		x = op.Mul(op.Sign(x), op.Mul(op.Log1p(op.Abs(x)), number(g, 1/math.Log(8))))
		return perceptron(s.At(name), x, c.fpn, heads)
	}
	x := op.Reshape(axis("box_rpb_embed_x", edges[0], edges[2]), ir.ShapeOf(1, n, 1, c.grid, heads))
	y := op.Reshape(axis("box_rpb_embed_y", edges[1], edges[3]), ir.ShapeOf(1, n, c.grid, 1, heads))
	return op.Transpose(op.Reshape(op.Add(y, x), ir.ShapeOf(1, n, c.grid*c.grid, heads)), 0, 3, 1, 2)
}

// scores returns a logit [1,Q] for each query: how well it fits the prompt.
func scores(d *detector, s nn.Scope, queries, prompt *ir.Node) *ir.Node {
	width := queries.Type.Shape[2].Const
	text := op.Add(perceptron(s.At("text_mlp"), prompt, d.decoder.hidden, width), prompt)
	text = op.ReduceMean(s.At("text_mlp_out_norm").LayerNorm(text, normEps), true, 1)
	text = s.At("text_proj").Linear(text, width, "")
	x := op.MatMul(s.At("query_proj").Linear(queries, width, ""), text, op.MatMulAttrs{TransB: true})
	x = op.Clamp(op.Mul(x, number(s.Graph, 1/math.Sqrt(float64(width)))), -maxScore, maxScore)
	return op.Reshape(x, ir.ShapeOf(1, d.queries))
}

// masks returns a mask [1,Q,4g,4g] of logits for each query, and one [1,1,4g,4g] of all objects.
func masks(c config, s nn.Scope, queries, memory, prompt *ir.Node, features []*ir.Node) (each, all *ir.Node) {
	d, heads := c.detector, c.detector.maskHeads
	h := s.At("prompt_cross_attn_norm").LayerNorm(memory, normEps)
	memory = op.Add(memory, attend(s.At("prompt_cross_attn"), heads, h, prompt, prompt, nil))
	x := op.Reshape(op.Transpose(memory, 0, 2, 1), ir.ShapeOf(1, c.fpn, c.grid, c.grid))
	pixels := s.At("pixel_decoder")
	for i := range 2 {
		conv, norm := pixels.At("conv_layers", i), pixels.At("norms", i)
		x = op.Add(op.Repeat(op.Repeat(x, 2, 2), 3, 2), features[1-i])
		x = op.Conv2D(x, conv.Param("weight", c.fpn, c.fpn, 3, 3), conv.F32("bias", c.fpn),
			op.ConvAttrs{Stride: []int{1, 1}, Padding: []int{1, 1}, Dilation: []int{1, 1},
				Layout: op.NCHW}).Named(conv.Path())
		x = op.Relu(op.GroupNorm(x, norm.F32("weight", c.fpn), norm.F32("bias", c.fpn), pixelGroups, normEps))
	}
	x = rows(x)
	one := func(name string, out int64) *ir.Node { // a convolution of 1x1
		p := s.At(name)
		return hir.Linear(x, op.Reshape(p.Param("weight", out, c.fpn, 1, 1), ir.ShapeOf(out, c.fpn)),
			p.Param("bias", out), "").Named(p.Path())
	}
	for i := range 3 {
		act := "relu"
		if i == 2 {
			act = ""
		}
		queries = s.At("mask_embedder.layers", i).Linear(queries, c.fpn, act)
	}
	side := 4 * c.grid
	each = op.MatMul(queries, one("instance_projection", c.fpn), op.MatMulAttrs{TransB: true})
	return op.Reshape(each, ir.ShapeOf(1, d.queries, side, side)),
		op.Reshape(one("semantic_projection", 1), ir.ShapeOf(1, 1, side, side))
}
