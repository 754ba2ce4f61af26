package promptable

import (
	"fmt"
	"strings"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/hir"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/nn"
	"github.com/rlx-go/rlx/task"
)

// SAM2 is the prompt encoder and the mask decoder of SAM 2 (Ravi et al., arXiv:2408.00714), which the tracker of SAM 3
// has, too.
type SAM2 struct {
	Decoder
	TokenMLP, TokenHidden int64 // layers and width of the MLPs in the decoder's layers
	Dynamic               bool  // mask 0 is replaced by the best of the others if it is not stable
	Delta, Threshold      float64
}

// Configuration keys of SAM2, as in a Transformers config.json.
const (
	decoderKey   = "mask_decoder_config."
	promptKey    = "prompt_encoder_config."
	keyMaskAct   = promptKey + "hidden_act"
	keyMaskEps   = promptKey + "layer_norm_eps"
	keyHeads     = decoderKey + "num_attention_heads"
	keyDynamic   = decoderKey + "dynamic_multimask_via_stability"
	keyDelta     = decoderKey + "dynamic_multimask_stability_delta"
	keyThreshold = decoderKey + "dynamic_multimask_stability_thresh"
)

// SAM2Keys adds the configuration keys of a SAM2 to keys, each after a prefix such as "tracker_config.".
func SAM2Keys(keys map[string]string, prefix string) {
	for key, about := range map[string]string{
		keyMaskAct:   "activation between the convolutions of a mask prompt (default gelu)",
		keyMaskEps:   "epsilon of the layer norms between these convolutions (default 1e-6)",
		keyHeads:     "attention heads of the mask decoder (default 8)",
		keyDynamic:   "whether mask 0 is the best of the others where it is not stable (default true)",
		keyDelta:     "distance from 0 of the two logits whose masks tell the stability of mask 0 (default 0.05)",
		keyThreshold: "stability below which mask 0 is replaced (default 0.98)",
	} {
		keys[prefix+key] = about
	}
}

// Landmarks lists tensors that together only a SAM2 has.
var Landmarks = []string{"no_mem_embed", "mask_decoder.obj_score_token.weight", "mask_decoder.conv_s0.weight"}

// ReadSAM2 reads the sizes of a SAM2 from tensors whose names begin with tensors, and from the configuration below the
// prefix key. layers gives the number of layers of an MLP by our name. ImageSize and Grid are left to the caller.
func ReadSAM2(w *nn.Weights, tensors string, layers func(mlp string) int64, cfg arch.Config, key string) (c SAM2,
	err error) {
	// nn.LayerNorm of the decoder's layers has its default epsilon in both releases.
	c.Eps, c.MaskEps, c.MaskAct, c.Heads = 1e-5, NormEps, "gelu", 8
	c.Object, c.Finer, c.Sigmoid = true, true, true
	decoder := tensors + "mask_decoder."
	tokens, err := w.Dims(decoder+"mask_tokens.weight", "[masks, channels]", 2)
	if err != nil {
		return c, err
	}
	c.Masks, c.Embed = tokens[0], tokens[1]
	if c.Embed%8 != 0 {
		return c, diag.New(arch.ErrTensor, w.Source(decoder+"mask_tokens.weight"),
			"tensor is %v; expected a multiple of 8 channels", ir.ShapeOf(tokens...))
	}
	layer := decoder + "transformer.layers.0."
	for has := true; has; c.Layers++ {
		_, has = w.Type(fmt.Sprintf("%stransformer.layers.%d.norm1.weight", decoder, c.Layers+1))
	}
	for name, to := range map[string]*int64{layer + "cross_attn_token_to_image.q_proj.weight": &c.Inner,
		layer + "mlp.layers.0.weight":                   &c.TokenHidden,
		decoder + "iou_prediction_head.layers.0.weight": &c.IoUHidden} {
		shape, err := w.Dims(name, "[out, in]", 2)
		if err != nil {
			return c, err
		}
		*to = shape[0]
	}
	c.TokenMLP, c.IoULayers = layers(layer+"mlp."), layers(decoder+"iou_prediction_head.")
	for i, conv := range []int{0, 3} {
		shape, err := w.Dims(fmt.Sprintf("%sprompt_encoder.mask_downscaling.%d.weight", tensors, conv),
			"[out, in, 2, 2]", 4)
		if err != nil {
			return c, err
		}
		c.MaskChannels[i] = shape[0]
	}
	c.Kinds = func(s nn.Scope) *ir.Node {
		return op.Concat(0, s.F32("not_a_point_embed.weight", 1, c.Embed), s.F32("point_embeddings.weight", 4, c.Embed))
	}
	c.MLP = func(s nn.Scope, x *ir.Node) *ir.Node { return MLP(s, x, c.TokenMLP, c.TokenHidden, c.Embed) }
	if err := c.readOptions(cfg, key); err != nil {
		return c, err
	}
	return c, c.agree(cfg, key)
}

// readOptions reads what the tensors do not tell.
func (c *SAM2) readOptions(cfg arch.Config, key string) error {
	unsupported := func(k, format string, args ...any) error {
		return diag.New(arch.ErrConfig, cfg.Origin(key+k), "%s%s %s", key, k, fmt.Sprintf(format, args...))
	}
	if n, ok, err := cfg.Int(key+keyHeads, 1, 1<<16); err != nil {
		return err
	} else if ok {
		c.Heads = n
	}
	if c.Inner%c.Heads != 0 || c.Embed%c.Heads != 0 {
		return unsupported(keyHeads, "is %d, which does not divide the decoder's widths, %d and %d", c.Heads, c.Embed,
			c.Inner)
	}
	c.Dynamic, c.Delta, c.Threshold = true, 0.05, 0.98
	if v, ok, err := cfg.Bool(key + keyDynamic); err != nil {
		return err
	} else if ok {
		c.Dynamic = v
	}
	c.Dynamic = c.Dynamic && c.Masks > 1
	for _, f := range []struct {
		key  string
		most float64
		to   *float64
	}{{keyDelta, 1e6, &c.Delta}, {keyThreshold, 1e6, &c.Threshold}, {keyMaskEps, 1, &c.MaskEps}} {
		x, ok, err := cfg.Float(key + f.key)
		if err == nil && ok && !(x >= 0 && x <= f.most) {
			err = unsupported(f.key, "is %v; want 0 to %v", x, f.most)
		}
		if err != nil {
			return err
		}
		if ok {
			*f.to = x
		}
	}
	act, ok, err := cfg.String(key + keyMaskAct)
	if err != nil || !ok {
		return err
	}
	if act == "" || !op.IsActivation(act) {
		return unsupported(keyMaskAct, "is %q; want one of %s", act, strings.Join(op.Activations(), ", "))
	}
	c.MaskAct = act
	return nil
}

// agree checks that other keys of the configuration agree with the tensors.
func (c SAM2) agree(cfg arch.Config, key string) error {
	for k, v := range map[string]int64{
		promptKey + "hidden_size": c.Embed, promptKey + "mask_input_channels": c.MaskChannels[1],
		promptKey + "num_point_embeddings": 4, decoderKey + "hidden_size": c.Embed,
		decoderKey + "mlp_dim":           c.TokenHidden,
		decoderKey + "num_hidden_layers": c.Layers, decoderKey + "num_multimask_outputs": c.Masks - 1,
		decoderKey + "iou_head_depth": c.IoULayers, decoderKey + "iou_head_hidden_dim": c.IoUHidden,
		decoderKey + "attention_downsample_rate": c.Embed / c.Inner,
	} {
		if err := cfg.Agree(key+k, v); err != nil {
			return err
		}
	}
	return nil
}

// Facts returns the lines that describe the decoder to the user.
func (c SAM2) Facts(cfg arch.Config, key string) []arch.Fact {
	choice := "mask 0 as the decoder makes it"
	if c.Dynamic {
		choice = fmt.Sprintf("the best of the other masks for mask 0 where its stability is below %v", c.Threshold)
	}
	return []arch.Fact{
		{Name: "decoder", Value: fmt.Sprintf("%d layers of width %d, MLP %d, %d mask tokens", c.Layers, c.Embed,
			c.TokenHidden, c.Masks)},
		cfg.Fact("decoder heads", key+keyHeads, c.Heads), cfg.Fact("stability", key+keyDynamic, choice)}
}

// Task returns how points and boxes select objects. Mask 0 is meant for unambiguous prompts; the others are candidates
// among which the predicted quality decides.
func (c SAM2) Task() *task.Segment {
	s := task.NewSegment(int(c.ImageSize), MaxPoints)
	s.Resize, s.PadBoxes = task.ResizeStretch, true
	s.Features = FinerNames[:]
	s.Tokens = int(c.Masks)
	s.BestFirst, s.BestLast = min(1, s.Tokens-1), s.Tokens-1
	s.BatchMethod, s.MaxPrompts = "decode_batch", MaxPrompts
	s.MaskInput, s.MaskSide = "mask", int(4*c.Grid)
	return s
}

// ReturnFeatures returns what the decoder takes of an image: embeddings [1,C,g,g] and the finer features [1,4g,4g,C/8]
// and [1,2g,2g,C/4], of levels [1,h,w,C], the finest first. The first layers of the decoder, conv_s0 and conv_s1, are
// part of it, so that no prompt repeats them.
func (c SAM2) ReturnFeatures(root nn.Scope, levels []*ir.Node) {
	// The embedding of an empty memory, which an image has.
	x := op.Add(levels[2], op.Reshape(root.F32("no_mem_embed", 1, 1, c.Embed), ir.ShapeOf(1, 1, 1, c.Embed)))
	root.Graph.Return("embeddings", op.Transpose(x, 0, 3, 1, 2))
	for i, conv := range []string{"conv_s0", "conv_s1"} {
		root.Graph.Return(FinerNames[i], Pointwise(root.At("mask_decoder", conv), levels[i], c.FinerChannels(i)))
	}
}

// Pointwise applies the convolution of 1x1 at s to x [1,h,w,C].
func Pointwise(s nn.Scope, x *ir.Node, out int64) *ir.Node {
	in := x.Type.Shape[3].Const
	return hir.Linear(x, op.Reshape(s.Param("weight", out, in, 1, 1), ir.ShapeOf(out, in)), s.Param("bias", out),
		"").Named(s.Path())
}

// A DecodeMethod is a method that turns prompts into masks.
type DecodeMethod struct {
	Name  string
	Syms  ir.Syms
	Build func(c SAM2, root nn.Scope)
}

// DecodeMethods lists the methods of a SAM2. Method decode maps embeddings, finer features, points [1,N,2], labels
// [1,N] and a mask [1,1,4g,4g] to low_res_masks [1,M,4g,4g], iou [1,M] and object_score [1,1], the logit that there is
// an object. Method decode_batch does so for prompts [P,N,2] in one image, without mask prompts.
func DecodeMethods() []DecodeMethod {
	points := ir.Sym{Name: "N", Min: 1, Max: MaxPoints}
	return []DecodeMethod{
		{"decode", ir.Syms{points}, func(c SAM2, root nn.Scope) { c.decode(root, ir.Static(1), true) }},
		{"decode_batch", ir.Syms{points, {Name: "P", Min: 1, Max: MaxPrompts}},
			func(c SAM2, root nn.Scope) { c.decode(root, ir.Named("P"), false) }},
	}
}

func (c SAM2) decode(root nn.Scope, prompts ir.Dim, masked bool) {
	r := c.Decode(root, ir.Static(1), prompts, ir.Named("N"), masked)
	if c.Dynamic {
		r.Masks, r.IoU = c.stable(r.Masks, r.IoU)
	}
	root.Graph.Return("low_res_masks", r.Masks)
	root.Graph.Return("iou", r.IoU)
	root.Graph.Return("object_score", r.Object)
}

// stable replaces mask 0 of each prompt by the one of the others with the highest predicted quality, if mask 0 is not
// stable: if it covers much less at a logit of delta than at -delta.
func (c SAM2) stable(masks, iou *ir.Node) (*ir.Node, *ir.Node) {
	g, n := masks.Graph, int(c.Masks)
	number := func(v float64) *ir.Node { return op.Const(g, v, ir.TypeOf(dtype.F32)) }
	own, quality := op.Narrow(masks, 1, 0, 1), op.Narrow(iou, 1, 0, 1)
	area := func(threshold float64) *ir.Node {
		inside := op.Where(op.Gt(own, number(threshold)), number(1), number(0))
		return op.ReduceSum(inside, false, 2, 3)
	}
	inner, outer := area(c.Delta), area(-c.Delta)
	ok := op.Ge(op.Where(op.Gt(outer, number(0)), op.Div(inner, outer), number(1)), number(c.Threshold)) // [P,1]
	best := op.ArgMax(op.Narrow(iou, 1, 1, n-1), 1, true)
	for i := 1; i < n; i++ {
		chosen := op.Eq(best, op.Const(g, float64(i-1), ir.TypeOf(dtype.I32)))
		take := op.And(chosen, op.Not(ok))
		quality = op.Where(take, op.Narrow(iou, 1, i, 1), quality)
		take = op.Reshape(take, append(append(ir.Shape{}, take.Type.Shape...), ir.Static(1), ir.Static(1)))
		own = op.Where(take, op.Narrow(masks, 1, i, 1), own)
	}
	return op.Concat(1, own, op.Narrow(masks, 1, 1, n-1)), op.Concat(1, quality, op.Narrow(iou, 1, 1, n-1))
}
