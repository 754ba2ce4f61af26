// Package promptable builds what the models of the Segment Anything family share: the prompt encoder, which turns
// points, boxes and masks into tokens, and the mask decoder. Tensors have the names of the original release of SAM v1,
// below prompt_encoder and mask_decoder.
//
// It imports models/nn and below; it reads no bytes and knows no device.
package promptable

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/nn"
)

// MaxPoints is the maximum number of prompt points in one run, padding included.
const MaxPoints = 64

// MaxPrompts is the maximum number of prompts in one run. In a SAM of full size each takes 13 MB of the arena.
const MaxPrompts = 8

// HyperLayers is the number of layers of the networks that compute the weights of a mask.
const HyperLayers = 3

// NormEps is the epsilon of LayerNorm2d in the original code and in Transformers.
const NormEps = 1e-6

// finalEps is the default epsilon of nn.LayerNorm. Transformers uses it, too, for the last norm of the decoder.
const finalEps = 1e-5

// FinerNames names the inputs of Decode with finer features, the finest first. Methods that encode images return them
// under the same names.
var FinerNames = []string{"features0", "features1"}

// A Decoder holds the sizes and options of a prompt encoder and a mask decoder.
type Decoder struct {
	ImageSize, Grid int64    // side of the image in pixels, and in tokens
	Embed           int64    // channels of prompts and masks
	Inner           int64    // width of attention between tokens and image
	Masks           int64    // mask tokens
	MaskChannels    [2]int64 // between the convolutions of a mask prompt
	MaskAct         string   // activation between them
	MaskEps         float64  // epsilon of the norms between them
	Layers, Heads   int64
	IoULayers       int64 // of the head that predicts the quality of masks
	IoUHidden       int64 // width of that head; 0 if it is a single layer
	Eps             float64
	// Kinds returns the embeddings [5,C] of the labels -1 to 3.
	Kinds func(prompt nn.Scope) *ir.Node
	// MLP applies the MLP of the layer at a scope.
	MLP func(layer nn.Scope, x *ir.Node) *ir.Node

	// Of SAM 2.
	Object  bool // a token and a head tell whether there is an object
	Finer   bool // features of twice and four times the grid are added to the scaled tokens
	Sigmoid bool // the quality is the sigmoid of what its head gives
}

// Results are the masks [P,M,4g,4g], their predicted quality [P,M], and, if the decoder has a head for it, the logit
// [P,1] that there is an object.
type Results struct{ Masks, IoU, Object *ir.Node }

// Decode adds inputs for embeddings [images,C,g,g] and P prompts of n points, in one image or in as many, and returns
// their masks. With masked there is also an input mask [1,1,4g,4g]. Finer features are [images,4g,4g,C/8] and
// [images,2g,2g,C/4].
func (d Decoder) Decode(root nn.Scope, images, prompts, n ir.Dim, masked bool) (out Results) {
	g := root.Graph
	s, prompt := root.At("mask_decoder"), root.At("prompt_encoder")
	embeddings := op.Input(g, "embeddings", ir.Type{DType: dtype.F32, Shape: ir.Shape{images, ir.Static(d.Embed),
		ir.Static(d.Grid), ir.Static(d.Grid)}})
	finer := d.finer(g, images)
	points := op.Input(g, "points", ir.Type{DType: dtype.F32, Shape: ir.Shape{prompts, n, ir.Static(2)}})
	labels := op.Input(g, "labels", ir.Type{DType: dtype.I32, Shape: ir.Shape{prompts, n}})
	each := func(x *ir.Node) *ir.Node { // repeats x [1,n,C] for every prompt
		if x.Type.Shape[0] == prompts {
			return x
		}
		return op.Expand(x, ir.Shape{prompts, x.Type.Shape[1], x.Type.Shape[2]})
	}

	own, first := []*ir.Node{learned(s, "iou_token.weight", 1, d.Embed),
		learned(s, "mask_tokens.weight", d.Masks, d.Embed)}, 0
	if d.Object {
		own, first = append([]*ir.Node{learned(s, "obj_score_token.weight", 1, d.Embed)}, own...), 1
	}
	tokens := op.Concat(1, each(op.Concat(1, own...)), d.sparsePrompts(prompt, points, labels))
	src := op.Reshape(op.Transpose(embeddings, 0, 2, 3, 1),
		ir.Shape{images, ir.Static(d.Grid * d.Grid), ir.Static(d.Embed)})
	dense := prompt.F32("no_mask_embed.weight", 1, d.Embed)
	if masked {
		mask := op.Input(g, "mask", ir.TypeOf(dtype.F32, 1, 1, 4*d.Grid, 4*d.Grid))
		dense = d.densePrompt(prompt, mask, dense)
	}
	src = each(op.Add(src, dense))

	queries, keys := d.twoWay(s.At("transformer"), tokens, src, d.gridPositions(prompt))

	up := d.upscale(s,
		op.Reshape(keys, ir.Shape{prompts, ir.Static(d.Grid), ir.Static(d.Grid), ir.Static(d.Embed)}), finer)
	side, channels := 4*d.Grid, d.Embed/8
	var hyper []*ir.Node
	for i := range d.Masks {
		token := op.Narrow(queries, 1, first+1+int(i), 1)
		hyper = append(hyper, MLP(s.At("output_hypernetworks_mlps", i), token, HyperLayers, d.Embed, channels))
	}
	up = op.Reshape(up, ir.Shape{prompts, ir.Static(side * side), ir.Static(channels)})
	masks := op.MatMul(op.Concat(1, hyper...), up, op.MatMulAttrs{TransB: true})
	out.Masks = op.Reshape(masks, ir.Shape{prompts, ir.Static(d.Masks), ir.Static(side), ir.Static(side)})
	iou := MLP(s.At("iou_prediction_head"), op.Narrow(queries, 1, first, 1), d.IoULayers, d.IoUHidden, d.Masks)
	out.IoU = op.Reshape(iou, ir.Shape{prompts, ir.Static(d.Masks)})
	if d.Sigmoid {
		out.IoU = op.Sigmoid(out.IoU)
	}
	if d.Object {
		object := MLP(s.At("pred_obj_score_head"), op.Narrow(queries, 1, 0, 1), HyperLayers, d.Embed, 1)
		out.Object = op.Reshape(object, ir.Shape{prompts, ir.Static(1)})
	}
	return out
}

// finer adds inputs for the finer features, if the decoder takes them.
func (d Decoder) finer(g *ir.Graph, images ir.Dim) (out []*ir.Node) {
	if !d.Finer {
		return nil
	}
	for i, name := range FinerNames {
		side := ir.Static(d.Grid << (2 - i))
		out = append(out, op.Input(g, name,
			ir.Type{DType: dtype.F32, Shape: ir.Shape{images, side, side, ir.Static(d.FinerChannels(i))}}))
	}
	return out
}

// FinerChannels returns the number of channels of the finer features i.
func (d Decoder) FinerChannels(i int) int64 { return d.Embed >> (3 - i) }
