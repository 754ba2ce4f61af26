package sam

import (
	"fmt"
	"strings"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/nn"
)

// config are the sizes of one SAM. All but the decoder's heads come from tensor shapes.
type config struct {
	imageSize, patch, grid int64
	width, heads, hidden   int64 // of the image encoder
	windows                []int // per block: side in tokens, 0 global
	embed                  int64 // channels of prompts and masks
	masks                  int64 // mask tokens
	decoderLayers          int64
	decoderHeads           int64
	decoderHidden          int64
	iouHidden              int64 // of the head that predicts the masks' quality
	encoderEps, decoderEps float64
	encoderAct, decoderAct string
}

// Configuration keys, as in a Transformers config.json.
const (
	keyDecoderHeads = "mask_decoder_config.num_attention_heads"
	keyDecoderEps   = "mask_decoder_config.layer_norm_eps"
	keyDecoderAct   = "mask_decoder_config.hidden_act"
	keyEncoderEps   = "vision_config.layer_norm_eps"
	keyEncoderAct   = "vision_config.hidden_act"
)

var keys = map[string]string{
	keyDecoderHeads: "attention heads of the mask decoder (default 8)",
	keyDecoderEps:   "epsilon of the layer norms in the decoder's layers (default 1e-6, as Transformers; the original code has 1e-5)",
	keyDecoderAct:   "activation of the decoder's MLPs (default relu)",
	keyEncoderEps:   "epsilon of the encoder's layer norms (default 1e-6)",
	keyEncoderAct:   "activation of the encoder's MLPs (default gelu)",
}

// maxSize bounds every size that is read from a tensor, far above any model's, so that products of two do not overflow.
const maxSize = 1 << 20

// dims fetches a tensor's shape, checked for its rank.
func dims(w *nn.Weights, name, want string, rank int) ([]int64, error) {
	t, ok := w.Type(name)
	if !ok {
		return nil, diag.New(arch.ErrTensor, w.Source(name), "tensor is missing; expected %s", want)
	}
	if len(t.Shape) != rank {
		return nil, diag.New(arch.ErrTensor, w.Source(name), "tensor is %v; expected %s", t, want)
	}
	out := make([]int64, rank)
	for i, d := range t.Shape {
		if out[i] = d.B; d.B < 1 || d.B > maxSize {
			return nil, diag.New(arch.ErrTensor, w.Source(name), "tensor is %v; expected %s with dims from 1 to %d", t, want, maxSize)
		}
	}
	return out, nil
}

// readConfig derives the sizes from shapes and checks the configuration against them.
func readConfig(w *nn.Weights, cfg arch.Config) (c config, err error) {
	pos, err := dims(w, "image_encoder.pos_embed", "[1, grid, grid, width]", 4)
	if err != nil {
		return c, err
	}
	patch, err := dims(w, "image_encoder.patch_embed.proj.weight", "[width, 3, patch, patch]", 4)
	if err != nil {
		return c, err
	}
	if pos[0] != 1 || pos[1] != pos[2] || pos[3] != patch[0] {
		return c, diag.New(arch.ErrTensor, w.Source("image_encoder.pos_embed"), "tensor is %v; expected [1, grid, grid, %d] with a square grid", ir.ShapeOf(pos...), patch[0])
	}
	if patch[1] != 3 || patch[2] != patch[3] {
		return c, diag.New(arch.ErrTensor, w.Source("image_encoder.patch_embed.proj.weight"), "tensor is %v; expected [width, 3, patch, patch] with a square patch", ir.ShapeOf(patch...))
	}
	c.grid, c.width, c.patch = pos[1], pos[3], patch[2]
	c.imageSize = c.grid * c.patch
	if err := c.readBlocks(w); err != nil {
		return c, err
	}
	neck, err := dims(w, "image_encoder.neck.0.weight", "[channels, width, 1, 1]", 4)
	if err != nil {
		return c, err
	}
	c.embed = neck[0]
	if c.embed%8 != 0 {
		return c, diag.New(arch.ErrTensor, w.Source("image_encoder.neck.0.weight"), "tensor is %v; expected a multiple of 8 channels", ir.ShapeOf(neck...))
	}
	tokens, err := dims(w, "mask_decoder.mask_tokens.weight", "[masks, channels]", 2)
	if err != nil {
		return c, err
	}
	c.masks = tokens[0]
	for has := true; has; c.decoderLayers++ {
		_, has = w.Type(fmt.Sprintf("mask_decoder.transformer.layers.%d.norm1.weight", c.decoderLayers+1))
	}
	mlp, err := dims(w, "mask_decoder.transformer.layers.0.mlp.lin1.weight", "[hidden, channels]", 2)
	if err != nil {
		return c, err
	}
	iou, err := dims(w, "mask_decoder.iou_prediction_head.layers.0.weight", "[hidden, channels]", 2)
	if err != nil {
		return c, err
	}
	c.decoderHidden, c.iouHidden = mlp[0], iou[0]
	return c, c.readChoices(cfg)
}

// readBlocks finds depth, heads and windows. The relative position tables of a block have 2n-1 rows, where n is the side
// of what its queries attend to, and as many columns as a head.
func (c *config) readBlocks(w *nn.Weights) error {
	for i := 0; ; i++ {
		block := fmt.Sprintf("image_encoder.blocks.%d.", i)
		if _, ok := w.Type(block + "norm1.weight"); !ok && i > 0 {
			return nil
		}
		rel, err := dims(w, block+"attn.rel_pos_h", "[2*window-1, head width]", 2)
		if err != nil {
			return err
		}
		if rel[0]%2 == 0 || c.width%rel[1] != 0 || c.heads != 0 && c.heads != c.width/rel[1] {
			return diag.New(arch.ErrTensor, w.Source(block+"attn.rel_pos_h"), "tensor is %v; expected [2*window-1, head width] with a head width that divides %d, the same in every block",
				ir.ShapeOf(rel...), c.width)
		}
		c.heads = c.width / rel[1]
		window := (rel[0] + 1) / 2
		if window == c.grid {
			window = 0 // one window that is the whole grid
		}
		c.windows = append(c.windows, int(window))
		mlp, err := dims(w, block+"mlp.lin1.weight", "[hidden, width]", 2)
		if err != nil {
			return err
		}
		c.hidden = mlp[0]
	}
}

// readChoices takes what shapes cannot tell, and compares the rest with them.
func (c *config) readChoices(cfg arch.Config) (err error) {
	c.decoderHeads = 8 // in every published SAM
	if v, ok, err := cfg.Int(keyDecoderHeads, 1, 1<<16); err != nil {
		return err
	} else if ok {
		c.decoderHeads = v
	}
	if c.embed/2%c.decoderHeads != 0 {
		return diag.New(arch.ErrConfig, cfg.Origin(keyDecoderHeads), "%s is %d, which does not divide the decoder's inner width %d", keyDecoderHeads, c.decoderHeads, c.embed/2).
			WithHint("give the checkpoint's own with --set %s=N", keyDecoderHeads)
	}
	// Transformers uses 1e-6 in the decoder's layers; the original code leaves nn.LayerNorm's 1e-5. We follow the former,
	// as the goldens do; the other is one --set away.
	c.encoderEps, c.decoderEps = 1e-6, 1e-6
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
			return diag.New(arch.ErrConfig, cfg.Origin(key), "%s is %q; want one of %s", key, v, strings.Join(op.Activations(), ", "))
		}
		*act = v
	}
	for _, a := range []struct {
		key   string
		value int64
	}{
		{"vision_config.hidden_size", c.width}, {"vision_config.num_hidden_layers", int64(len(c.windows))},
		{"vision_config.num_attention_heads", c.heads}, {"vision_config.image_size", c.imageSize},
		{"vision_config.patch_size", c.patch}, {"vision_config.output_channels", c.embed},
		{"prompt_encoder_config.hidden_size", c.embed}, {"mask_decoder_config.hidden_size", c.embed},
		{"mask_decoder_config.num_hidden_layers", c.decoderLayers}, {"mask_decoder_config.mlp_dim", c.decoderHidden},
		{"mask_decoder_config.iou_head_hidden_dim", c.iouHidden},
	} {
		if err := cfg.Agree(a.key, a.value); err != nil {
			return err
		}
	}
	return nil
}

// facts are shown to the user.
func (c config) facts(cfg arch.Config, transformers bool) []arch.Fact {
	naming := "original SAM"
	if transformers {
		naming = "Transformers"
	}
	return []arch.Fact{
		{Name: "names", Value: naming},
		{Name: "image", Value: fmt.Sprintf("%d px, patch %d, %dx%d tokens", c.imageSize, c.patch, c.grid, c.grid)},
		{Name: "encoder", Value: fmt.Sprintf("%d blocks of width %d, %d heads, MLP %d", len(c.windows), c.width, c.heads, c.hidden)},
		{Name: "windows", Value: c.windowText()},
		{Name: "decoder", Value: fmt.Sprintf("%d layers of width %d, MLP %d, %d mask tokens", c.decoderLayers, c.embed, c.decoderHidden, c.masks)},
		cfg.Fact("decoder heads", keyDecoderHeads, c.decoderHeads),
	}
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
