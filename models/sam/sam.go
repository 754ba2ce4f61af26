// Package sam builds SAM v1 (Kirillov et al., Segment Anything, arXiv:2304.02643) from a checkpoint of the original release
// or of the Transformers library: method encode makes image embeddings, method decode turns them and point or box prompts
// into masks. All sizes but the decoder's heads come from tensor shapes.
//
// It imports models/nn and below; it reads no bytes and knows no device.
package sam

import (
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/nn"
)

var _ = arch.Register(arch.Architecture{
	Name: "sam", Title: "SAM v1 (Segment Anything)",
	Recognise: recognise, Keys: keys, Build: build,
})

// landmarks are tensors that every SAM v1 has and no other family has together.
var landmarks = []string{
	"image_encoder.pos_embed", "image_encoder.patch_embed.proj.weight", "image_encoder.blocks.0.attn.rel_pos_h",
	"image_encoder.neck.0.weight", "prompt_encoder.pe_layer.positional_encoding_gaussian_matrix",
	"prompt_encoder.not_a_point_embed.weight", "mask_decoder.iou_token.weight", "mask_decoder.mask_tokens.weight",
	"mask_decoder.transformer.layers.0.cross_attn_token_to_image.q_proj.weight",
}

func recognise(c arch.Checkpoint) arch.Evidence {
	rename, _ := naming(c)
	var e arch.Evidence
	for _, l := range landmarks {
		found := false
		for _, n := range rename(l) {
			if _, ok := c.Type(n); ok && !found {
				e.Found, found = append(e.Found, n), true
			}
		}
		if !found {
			e.Missing = append(e.Missing, rename(l)[0])
		}
	}
	return e
}

// naming finds which names a checkpoint uses by counting landmarks.
func naming(c arch.Checkpoint) (rename func(string) []string, transformers bool) {
	count := func(rename func(string) []string) (n int) {
		for _, l := range landmarks {
			if _, ok := c.Type(rename(l)[0]); ok {
				n++
			}
		}
		return n
	}
	if count(transformersName) > count(originalName) {
		return transformersName, true
	}
	return originalName, false
}

func build(ckpt arch.Checkpoint, cfg arch.Config) (*arch.Model, error) {
	rename, transformers := naming(ckpt)
	w := nn.NewWeights(ckpt, rename)
	c, err := readConfig(w, cfg)
	if err != nil {
		return nil, err
	}
	m := &arch.Model{Arch: "sam", Facts: c.facts(cfg, transformers)}
	for _, method := range []struct {
		name  string
		syms  ir.Syms
		build func(config, nn.Scope)
	}{
		{"encode", nil, encode},
		{"decode", ir.Syms{{Name: "N", Min: 1, Max: maxPoints}}, decode},
	} {
		g, err := w.Graph(method.name, method.syms, func(root nn.Scope) { method.build(c, root) })
		if err != nil {
			return nil, err
		}
		m.Methods = append(m.Methods, g)
	}
	for _, i := range []int{0, 1, 3, 4, 6} { // mask prompts are not offered
		w.Skip(fmt.Sprintf("prompt_encoder.mask_downscaling.%d.weight", i), fmt.Sprintf("prompt_encoder.mask_downscaling.%d.bias", i))
	}
	if m.Skipped, err = w.Finish(); err != nil {
		return nil, err
	}
	m.Params = w.Params()
	m.Task = describe(c)
	return m, nil
}
