// Package sam builds SAM v1 (Kirillov et al., Segment Anything, arXiv:2304.02643) from a checkpoint of the original
// release or of the Transformers library. Method encode computes image embeddings. Method decode turns them and prompts
// (points, a box, a mask) into masks, and decode_batch does so for several prompts at a time. On request encode_batch
// encodes several images. A checkpoint may have only the encoder or only the decoder.
//
// It imports models/nn and below; it reads no bytes and knows no device.
package sam

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/nn"
	"github.com/rlx-go/rlx/models/promptable"
)

var _ = arch.Register(arch.Architecture{
	Name: "sam", Title: "SAM v1 (Segment Anything)",
	Recognise: recognise, Keys: keys, Build: build,
})

const absPos = "image_encoder.pos_embed"

// landmarks lists tensors that together only a SAM v1 has: those of the image encoder, and those of the prompt encoder
// and the mask decoder. A checkpoint may have only one of these halves. The first landmark may be missing if the
// configuration says so.
var landmarks = struct{ encoder, decoder []string }{
	[]string{
		absPos, "image_encoder.patch_embed.proj.weight", "image_encoder.blocks.0.norm1.weight",
		"image_encoder.blocks.0.attn.qkv.weight", "image_encoder.neck.0.weight",
	},
	[]string{
		"prompt_encoder.pe_layer.positional_encoding_gaussian_matrix", "prompt_encoder.not_a_point_embed.weight",
		"mask_decoder.iou_token.weight",
		"mask_decoder.mask_tokens.weight", "mask_decoder.transformer.layers.0.cross_attn_token_to_image.q_proj.weight",
		"mask_decoder.transformer.layers.0.norm1.weight",
	},
}

// parts tells which halves of a model a checkpoint has.
type parts struct{ encoder, decoder bool }

// partsOf finds the halves by their landmarks. Without any landmark it expects both, because then the user chose the
// family.
func partsOf(w *nn.Weights) parts {
	has := func(names []string) bool {
		return slices.ContainsFunc(names, func(n string) bool { _, ok := w.Type(n); return ok })
	}
	p := parts{has(landmarks.encoder), has(landmarks.decoder)}
	if p == (parts{}) {
		return parts{true, true}
	}
	return p
}

// recognise accepts names of both releases, so that a checkpoint that mixes them gets an error about the names.
func recognise(c arch.Checkpoint) arch.Evidence {
	n := namingOf(c)
	var e arch.Evidence
	for _, half := range [][]string{landmarks.encoder, landmarks.decoder} {
		var missing, usual []string
		for _, l := range half {
			i := slices.IndexFunc(n.either(l), func(name string) bool { _, ok := c.Type(name); return ok })
			switch {
			case i >= 0:
				e.Found = append(e.Found, n.either(l)[i])
			case l == absPos:
				usual = n.rename(l)[:1]
			default:
				missing = append(missing, n.rename(l)[0])
			}
		}
		if len(missing)+len(usual) < len(half) {
			e.Missing, e.Usual = append(e.Missing, missing...), append(e.Usual, usual...)
		}
	}
	if _, ok := c.Type("mask_decoder.obj_score_token.weight"); ok { // the decoder of a SAM 2
		e.Found = nil
	}
	if len(e.Found) == 0 {
		e.Missing = []string{n.rename(landmarks.encoder[0])[0], n.rename(landmarks.decoder[0])[0]}
	}
	return e
}

// naming describes the names that a checkpoint uses.
type naming struct {
	rename       func(string) []string // our name -> names in the checkpoint
	transformers bool
	iouLayers    int64 // of the IoU head
	mixed        [2]string
}

// namingOf finds the naming by counting landmarks.
func namingOf(c arch.Checkpoint) naming {
	count := func(format string) (n int64) {
		for {
			if _, ok := c.Type(fmt.Sprintf(format, n)); !ok {
				return n
			}
			n++
		}
	}
	n := naming{rename: originalName, iouLayers: count("mask_decoder.iou_prediction_head.layers.%d.weight")}
	depth := n.iouLayers + 2 // Transformers counts proj_in and proj_out separately
	theirs := transformersName(depth)
	var found [2]int
	for _, l := range slices.Concat(landmarks.encoder, landmarks.decoder) {
		if theirs(l)[0] == l {
			continue // both releases have the same name
		}
		for i, name := range []string{l, theirs(l)[0]} {
			if _, ok := c.Type(name); ok {
				found[i]++
				n.mixed[i] = name
			}
		}
	}
	if found[1] > found[0] {
		n.rename, n.transformers, n.iouLayers = theirs, true, depth
	}
	return n
}

// either lists the names that one of our tensors has in either release.
func (n naming) either(name string) []string {
	return append(originalName(name), transformersName(n.iouLayers)(name)...)
}

func build(ckpt arch.Checkpoint, cfg arch.Config) (*arch.Model, error) {
	n := namingOf(ckpt)
	if n.mixed[0] != "" && n.mixed[1] != "" {
		return nil,
			diag.New(arch.ErrTensor, n.mixed[0],
				"is a name of the original release, and %s is one of Transformers; use the names of one release only",
				n.mixed[1])
	}
	w := nn.NewWeights(ckpt, n.rename)
	c, err := readConfig(w, n, partsOf(w), cfg)
	if err != nil {
		return nil, err
	}
	m := &arch.Model{Arch: "sam", Facts: c.facts(n, cfg)}
	points := ir.Sym{Name: "N", Min: 1, Max: promptable.MaxPoints}
	for _, method := range []struct {
		name  string
		has   bool
		syms  ir.Syms
		build func(config, nn.Scope)
	}{
		{"encode", c.parts.encoder, nil, encode},
		{"encode_batch", c.parts.encoder && c.images > 1, ir.Syms{{Name: "B", Min: 1, Max: c.images}}, encodeBatch},
		{"decode", c.parts.decoder, ir.Syms{points}, decode},
		{"decode_batch", c.parts.decoder, ir.Syms{points, {Name: "P", Min: 1, Max: promptable.MaxPrompts}},
			decodeBatch},
	} {
		if !method.has {
			continue
		}
		g, err := w.Graph(method.name, method.syms, func(root nn.Scope) { method.build(c, root) })
		if err != nil {
			return nil, err
		}
		m.Methods = append(m.Methods, g)
	}
	if m.Skipped, err = w.Finish(); err != nil {
		return nil, err
	}
	m.Params = w.Params()
	if c.parts.encoder && c.parts.decoder {
		m.Task = describe(c)
		m.Train = func(o arch.TrainOptions) (*arch.Training, error) { return training(c, w, m, o) }
	}
	return m, nil
}
