package sam

import (
	"fmt"
	"strings"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/nn"
	"github.com/rlx-go/rlx/models/promptable"
)

// config holds the sizes and options of a SAM. Nearly all come from tensor shapes; keys lists the others.
type config struct {
	parts           parts
	imageSize, grid int64 // side of the image in pixels, and in tokens
	embed           int64 // channels of prompts and masks

	// Of the image encoder.
	patch, width, heads, hidden int64
	windows                     []int // per block: side of its windows in tokens; 0 for global attention
	absPos, qkvBias             bool
	relPos                      bool  // the checkpoint has tables of relative positions
	relRows, relColumns         bool  // their tables are used
	images                      int64 // limit of encode_batch; 1 if there is no such method
	encoderEps                  float64
	encoderAct                  string

	// Of the prompt encoder and the mask decoder.
	masks         int64    // mask tokens
	maskChannels  [2]int64 // between the convolutions of a mask prompt; 0 if the checkpoint has no such convolutions
	decoderLayers int64
	decoderHeads  int64
	decoderHidden int64
	iouLayers     int64 // of the head that predicts the quality of masks
	iouHidden     int64 // width of that head; 0 if it is a single layer
	decoderEps    float64
	decoderAct    string
}

// Configuration keys, as in a Transformers config.json.
const (
	keyDecoderHeads = "mask_decoder_config.num_attention_heads"
	keyDecoderEps   = "mask_decoder_config.layer_norm_eps"
	keyDecoderAct   = "mask_decoder_config.hidden_act"
	keyEncoderEps   = "vision_config.layer_norm_eps"
	keyEncoderAct   = "vision_config.hidden_act"
	keyAbsPos       = "vision_config.use_abs_pos"
	keyRelPos       = "vision_config.use_rel_pos"
	keyRelPosH      = "vision_config.use_rel_pos_h"
	keyRelPosW      = "vision_config.use_rel_pos_w"
	keyQKVBias      = "vision_config.qkv_bias"
	keyEncoderImage = "vision_config.image_size"
	keyEncoderHeads = "vision_config.num_attention_heads"
	keyWindow       = "vision_config.window_size"
	keyGlobal       = "vision_config.global_attn_indexes"
	keyImageSize    = "prompt_encoder_config.image_size"
	keyGrid         = "prompt_encoder_config.image_embedding_size"
	keyBatch        = "batch"
)

// maxImages is the maximum number of images in one run of encode_batch.
const maxImages = 64

var keys = map[string]string{
	keyBatch:        "most images that method encode_batch takes at a time (default 1: there is no such method)",
	keyDecoderHeads: "attention heads of the mask decoder (default 8)",
	keyDecoderEps:   "epsilon of the layer norms in the decoder's layers (default 1e-5 for the original names and 1e-6 for those of Transformers, as their code has it)",
	keyDecoderAct:   "activation of the decoder's MLPs (default relu)",
	keyEncoderEps:   "epsilon of the encoder's layer norms (default 1e-6)",
	keyEncoderAct:   "activation of the encoder's MLPs (default gelu)",
	keyRelPos:       "whether the encoder's attention has relative positions (default true); if not, give its heads and windows too",
	keyAbsPos:       "whether the encoder adds absolute positions to its tokens (default true); if not, give the side of its image too",
	keyRelPosH:      "false leaves out the relative positions of rows, to find the cause of a difference (default true)",
	keyRelPosW:      "false leaves out the relative positions of columns (default true)",
	keyEncoderImage: "side of the image in pixels, for an encoder without absolute positions",
	keyQKVBias:      "whether the encoder's projections to q, k and v have a bias (default true)",
	keyEncoderHeads: "attention heads of the encoder (default: from the tables of relative positions)",
	keyWindow:       "side of the encoder's windows in tokens (default: from the tables of relative positions)",
	keyGlobal:       "numbers of the encoder's blocks without windows (default: from the tables of relative positions)",
	keyImageSize:    "side of the image in pixels, for a checkpoint without an encoder (default 1024)",
	keyGrid:         "side of the image in tokens, for a checkpoint without an encoder (default 64)",
}

// readConfig derives the sizes from shapes and checks the configuration against them.
func readConfig(w *nn.Weights, n naming, p parts, cfg arch.Config) (config, error) {
	c := config{parts: p, images: 1}
	if n, ok, err := cfg.Int(keyBatch, 1, maxImages); err != nil {
		return c, err
	} else if ok {
		c.images = n
	}
	if c.images > 1 && !p.encoder {
		return c,
			diag.New(arch.ErrConfig, cfg.Origin(keyBatch),
				"%s is %d images, and the checkpoint has no image encoder; leave it out, because decode_batch takes up to %d prompts in any case",
				keyBatch, c.images, promptable.MaxPrompts)
	}
	if p.encoder {
		if err := c.readEncoder(w, cfg); err != nil {
			return c, err
		}
	}
	if p.decoder {
		if err := c.readDecoder(w, n, cfg); err != nil {
			return c, err
		}
	}
	return c, c.readChoices(n, cfg)
}

// readDecoder reads the sizes of the prompt encoder and the mask decoder.
func (c *config) readDecoder(w *nn.Weights, n naming, cfg arch.Config) error {
	tokens, err := w.Dims("mask_decoder.mask_tokens.weight", "[masks, channels]", 2)
	if err != nil {
		return err
	}
	c.masks = tokens[0]
	if !c.parts.encoder {
		if c.embed = tokens[1]; c.embed%8 != 0 {
			return diag.New(arch.ErrTensor, w.Source("mask_decoder.mask_tokens.weight"),
				"tensor is %v; expected a multiple of 8 channels", ir.ShapeOf(tokens...))
		}
		c.imageSize, c.grid = 1024, 64 // as in every published SAM
		for key, size := range map[string]*int64{keyImageSize: &c.imageSize, keyGrid: &c.grid} {
			if v, ok, err := cfg.Int(key, 1, maxGrid); err != nil {
				return err
			} else if ok {
				*size = v
			}
		}
		if c.imageSize%c.grid != 0 {
			return diag.New(arch.ErrConfig, cfg.Origin(keyGrid),
				"%s is %d, and the side of the image is %d pixels; want a whole number of pixels for each token",
				keyGrid, c.grid, c.imageSize)
		}
	}
	for has := true; has; c.decoderLayers++ {
		_, has = w.Type(fmt.Sprintf("mask_decoder.transformer.layers.%d.norm1.weight", c.decoderLayers+1))
	}
	mlp, err := w.Dims("mask_decoder.transformer.layers.0.mlp.lin1.weight", "[hidden, channels]", 2)
	if err != nil {
		return err
	}
	c.decoderHidden, c.iouLayers = mlp[0], n.iouLayers
	iou, err := w.Dims("mask_decoder.iou_prediction_head.layers.0.weight", "[hidden, channels]", 2)
	if err != nil {
		return err
	}
	if c.iouLayers > 1 {
		c.iouHidden = iou[0]
	}
	for i, layer := range []int{0, 3} {
		name := fmt.Sprintf("prompt_encoder.mask_downscaling.%d.weight", layer)
		if _, ok := w.Type(name); !ok && i == 0 {
			return nil // no mask prompts
		}
		conv, err := w.Dims(name, "[out, in, 2, 2]", 4)
		if err != nil {
			return err
		}
		c.maskChannels[i] = conv[0]
	}
	return nil
}

// maxGrid bounds sizes that only the configuration determines.
const maxGrid = 1 << 14

// readChoices reads what shapes do not determine, and checks that the other keys agree with the tensors.
func (c *config) readChoices(n naming, cfg arch.Config) (err error) {
	c.decoderHeads = 8 // as in every published SAM
	if v, ok, err := cfg.Int(keyDecoderHeads, 1, 1<<16); err != nil {
		return err
	} else if ok {
		c.decoderHeads = v
	}
	if c.parts.decoder && c.embed/2%c.decoderHeads != 0 {
		return diag.New(arch.ErrConfig, cfg.Origin(keyDecoderHeads),
			"%s is %d, which does not divide the decoder's inner width %d", keyDecoderHeads, c.decoderHeads, c.embed/2).
			WithHint("give the checkpoint's own with --set %s=N", keyDecoderHeads)
	}
	// The original code uses the default epsilon of nn.LayerNorm in the decoder; Transformers uses its own.
	c.encoderEps, c.decoderEps = 1e-6, 1e-5
	if n.transformers {
		c.decoderEps = 1e-6
	}
	for key, eps := range map[string]*float64{keyEncoderEps: &c.encoderEps, keyDecoderEps: &c.decoderEps} {
		v, ok, err := cfg.Float(key)
		if err == nil && ok && !(v >= 0 && v < 1) {
			err = diag.New(arch.ErrConfig, cfg.Origin(key), "%s is %v; want 0 to 1", key, v)
		}
		if err != nil {
			return err
		}
		if ok {
			*eps = v
		}
	}
	c.encoderAct, c.decoderAct = "gelu", "relu"
	for key, act := range map[string]*string{keyEncoderAct: &c.encoderAct, keyDecoderAct: &c.decoderAct} {
		v, ok, err := cfg.String(key)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if v == "" || !op.IsActivation(v) {
			return diag.New(arch.ErrConfig, cfg.Origin(key), "%s is %q; want one of %s", key, v,
				strings.Join(op.Activations(), ", "))
		}
		*act = v
	}
	type agreement struct {
		key   string
		value int64
	}
	var known []agreement
	if c.parts.encoder {
		known = append(known, agreement{"vision_config.hidden_size", c.width},
			agreement{"vision_config.num_hidden_layers", int64(len(c.windows))},
			agreement{keyEncoderHeads, c.heads}, agreement{keyEncoderImage, c.imageSize},
			agreement{"vision_config.patch_size", c.patch},
			agreement{"vision_config.output_channels", c.embed}, agreement{keyImageSize, c.imageSize},
			agreement{keyGrid, c.grid})
	}
	if c.parts.decoder {
		known = append(known, agreement{"prompt_encoder_config.hidden_size", c.embed},
			agreement{"mask_decoder_config.hidden_size", c.embed},
			agreement{"mask_decoder_config.num_hidden_layers", c.decoderLayers},
			agreement{"mask_decoder_config.mlp_dim", c.decoderHidden},
			agreement{"mask_decoder_config.iou_head_depth", c.iouLayers})
		if c.iouLayers > 1 {
			known = append(known, agreement{"mask_decoder_config.iou_head_hidden_dim", c.iouHidden})
		}
		if c.maskChannels[1] > 0 {
			known = append(known, agreement{"prompt_encoder_config.mask_input_channels", c.maskChannels[1]})
		}
	}
	for _, a := range known {
		if err := cfg.Agree(a.key, a.value); err != nil {
			return err
		}
	}
	return nil
}

// facts returns the lines that describe the model to the user.
func (c config) facts(n naming, cfg arch.Config) []arch.Fact {
	names := "original SAM"
	if n.transformers {
		names = "Transformers"
	}
	out := []arch.Fact{{Name: "names", Value: names}}
	if c.parts.encoder {
		out = append(
			out, arch.Fact{Name: "image",
				Value: fmt.Sprintf("%d px, patch %d, %dx%d tokens", c.imageSize, c.patch, c.grid, c.grid)},
			arch.Fact{Name: "encoder",
				Value: fmt.Sprintf("%d blocks of width %d, %d heads, MLP %d", len(c.windows), c.width, c.heads,
					c.hidden)},
			arch.Fact{Name: "windows", Value: c.windowText()})
		for _, x := range []struct {
			on        bool
			key, what string
		}{{c.absPos, keyAbsPos, "absolute"}, {c.relPos, keyRelPos, "relative"},
			{c.relRows || !c.relPos, keyRelPosH, "relative of rows"},
			{c.relColumns || !c.relPos, keyRelPosW, "relative of columns"}} {
			if !x.on {
				out = append(out, cfg.Fact("no positions", x.key, x.what))
			}
		}
	} else {
		out = append(out, cfg.Fact("image", keyImageSize, fmt.Sprintf("%d px", c.imageSize)),
			cfg.Fact("tokens", keyGrid, fmt.Sprintf("%dx%d", c.grid, c.grid)))
	}
	if c.parts.decoder {
		out = append(
			out, arch.Fact{Name: "decoder",
				Value: fmt.Sprintf("%d layers of width %d, MLP %d, %d mask tokens", c.decoderLayers, c.embed,
					c.decoderHidden, c.masks)},
			cfg.Fact("decoder heads", keyDecoderHeads, c.decoderHeads))
	}
	return out
}

func (c config) windowText() string {
	side, global := 0, []int{}
	for i, w := range c.windows {
		if w == 0 {
			global = append(global, i)
		} else {
			side = w
		}
	}
	return fmt.Sprintf("%d tokens, global attention in blocks %v", side, global)
}
