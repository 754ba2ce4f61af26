package sam3

import (
	"fmt"
	"math"
	"strings"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/nn"
)

// A detector has the sizes of text encoder, geometry encoder, DETR encoder and decoder, and mask decoder.
type detector struct {
	text struct {
		stack
		vocabulary, positions int64
		eps                   float64
	}
	geometry, encoder, decoder stack
	queries, roi, maskHeads    int64
}

// Configuration keys of the detector.
const (
	textPart     = "text_config."
	geometryPart = "geometry_encoder_config."
	encoderPart  = "detr_encoder_config."
	decoderPart  = "detr_decoder_config."
	maskPart     = "mask_decoder_config."
	keyTextEps   = textPart + "layer_norm_eps"
)

func init() {
	for p, what := range map[string]string{textPart: "text encoder", geometryPart: "geometry encoder",
		encoderPart: "DETR encoder", decoderPart: "DETR decoder", maskPart: "mask decoder"} {
		heads := 8
		act := "relu"
		if p == textPart {
			heads, act = 16, "gelu"
		}
		keys[p+"num_attention_heads"] = fmt.Sprintf("attention heads of the %s (default %d)", what, heads)
		if p != maskPart {
			keys[p+"hidden_act"] = fmt.Sprintf("activation of the MLPs of the %s (default %s)", what, act)
		}
	}
	keys[keyTextEps] = "epsilon of the layer norms of the text encoder (default 1e-5)"
}

// readDetector reads the sizes of the detector.
func readDetector(w *nn.Weights, c config, cfg arch.Config) (*detector, error) {
	if c.fpn%(2*pixelGroups) != 0 {
		return nil, diag.New(arch.ErrTensor, w.Source(queryLandmark),
			"the detector has %d channels; want a multiple of %d", c.fpn, 2*pixelGroups)
	}
	var d detector
	d.text.eps, d.text.heads, d.text.act = normEps, 16, "gelu"
	d.maskHeads = 8
	token, err := w.Dims("text_encoder.text_model.embeddings.token_embedding.weight", "[vocabulary, width]", 2)
	if err != nil {
		return nil, err
	}
	at, err := w.Dims("text_encoder.text_model.embeddings.position_embedding.weight", "[positions, width]", 2)
	if err != nil {
		return nil, err
	}
	query, err := w.Dims(queryLandmark, "[queries, channels]", 2)
	if err != nil {
		return nil, err
	}
	pool, err := w.Dims("geometry_encoder.boxes_pool_project.weight", "[channels, channels, cells, cells]", 4)
	if err != nil {
		return nil, err
	}
	d.text.vocabulary, d.text.positions, d.queries, d.roi = token[0], at[0], query[0], pool[2]
	for _, p := range []struct {
		key, layers string
		width       int64
		to          *stack
	}{
		{textPart, "text_encoder.text_model.encoder.layers", token[1], &d.text.stack},
		{geometryPart, "geometry_encoder.layers", c.fpn, &d.geometry},
		{encoderPart, "detr_encoder.layers", c.fpn, &d.encoder},
		{decoderPart, "detr_decoder.layers", c.fpn, &d.decoder},
	} {
		p.to.width = p.width
		if err := p.to.read(w, cfg, p.key, p.layers); err != nil {
			return nil, err
		}
	}
	if err := heads(cfg, maskPart, c.fpn, &d.maskHeads); err != nil {
		return nil, err
	}
	if x, ok, err := cfg.Float(keyTextEps); err != nil {
		return nil, err
	} else if ok {
		d.text.eps = x
	}
	if !(d.text.eps >= 0 && d.text.eps <= math.MaxFloat32) {
		return nil, diag.New(arch.ErrConfig, cfg.Origin(keyTextEps), "%s is %v; want a positive number", keyTextEps,
			d.text.eps)
	}
	return &d, d.agree(cfg)
}

// read reads the sizes of layers with the given names from tensors and the configuration.
func (p *stack) read(w *nn.Weights, cfg arch.Config, key, layers string) error {
	for {
		if _, ok := w.Type(fmt.Sprintf("%s.%d.mlp.fc1.weight", layers, p.layers)); !ok && p.layers > 0 {
			break
		}
		p.layers++
	}
	fc1, err := w.Dims(layers+".0.mlp.fc1.weight", "[hidden, width]", 2)
	if err != nil {
		return err
	}
	p.hidden = fc1[0]
	if p.heads == 0 {
		p.heads, p.act = 8, "relu"
	}
	if err := heads(cfg, key, p.width, &p.heads); err != nil {
		return err
	}
	act, ok, err := cfg.String(key + "hidden_act")
	if err != nil || !ok {
		return err
	}
	if act == "" || !op.IsActivation(act) {
		return diag.New(arch.ErrConfig, cfg.Origin(key+"hidden_act"), "%shidden_act is %q; want one of %s", key, act,
			strings.Join(op.Activations(), ", "))
	}
	p.act = act
	return nil
}

// heads reads the number of heads of a part of the given width.
func heads(cfg arch.Config, part string, width int64, n *int64) error {
	key := part + "num_attention_heads"
	got, ok, err := cfg.Int(key, 1, maxSide)
	if err != nil {
		return err
	}
	if ok {
		*n = got
	}
	if width%*n != 0 {
		return diag.New(arch.ErrConfig, cfg.Origin(key), "%s is %d; want a divisor of the width %d", key, *n, width)
	}
	return nil
}

// agree checks the sizes that the configuration repeats.
func (d *detector) agree(cfg arch.Config) error {
	for key, v := range map[string]int64{
		textPart + "vocab_size": d.text.vocabulary, textPart + "max_position_embeddings": d.text.positions,
		textPart + "hidden_size": d.text.width, textPart + "num_hidden_layers": int64(d.text.layers),
		geometryPart + "num_layers": int64(d.geometry.layers), geometryPart + "roi_size": d.roi,
		encoderPart + "num_layers": int64(d.encoder.layers), decoderPart + "num_layers": int64(d.decoder.layers),
		decoderPart + "num_queries": d.queries,
	} {
		if err := cfg.Agree(key, v); err != nil {
			return err
		}
	}
	return nil
}
