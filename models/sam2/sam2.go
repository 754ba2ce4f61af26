// Package sam2 builds SAM 2 and 2.1 (Ravi et al., SAM 2: Segment Anything in Images and Videos, arXiv:2408.00714) for
// images, from a checkpoint of the original release or of the Transformers library. Method encode turns an image into
// embeddings and two finer features. Method decode turns these and prompts (points, a box, a mask) into masks, and
// decode_batch does so for several prompts at a time. The memory of video is not built; its tensors are listed as
// unused.
//
// It imports models/promptable, models/nn and below; it reads no bytes and knows no device.
package sam2

import (
	"fmt"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/nn"
	"github.com/rlx-go/rlx/models/promptable"
)

var _ = arch.Register(arch.Architecture{
	Name: "sam2", Title: "SAM 2 and 2.1 (Segment Anything in Images and Videos), images",
	Types: []string{"sam2", "sam2_video"}, Recognise: recognise, Keys: keys, Build: build,
})

// landmarks lists tensors, in our names, that together only a SAM 2 has.
var landmarks = []string{
	"image_encoder.trunk.pos_embed_window", "image_encoder.trunk.patch_embed.proj.weight",
	"image_encoder.neck.convs.0.conv.weight", promptable.Landmarks[0], promptable.Landmarks[1], promptable.Landmarks[2],
}

func recognise(c arch.Checkpoint) arch.Evidence {
	n := namingOf(c)
	var e arch.Evidence
	for _, l := range landmarks {
		name := n.rename(l)[0]
		if _, ok := c.Type(name); ok {
			e.Found = append(e.Found, name)
		} else {
			e.Missing = append(e.Missing, name)
		}
	}
	return e
}

// naming describes the names that a checkpoint uses.
type naming struct {
	rename       func(string) []string // our name -> names in the checkpoint
	transformers bool
	layers       func(mlp string) int64 // number of layers of an MLP, by our name
}

// namingOf finds the naming by counting landmarks.
func namingOf(c arch.Checkpoint) naming {
	count := func(mlp string) int64 { return promptable.Numbered(c, mlp) }
	// Transformers has two layers with names of their own besides.
	depth := func(mlp string) int64 { return 2 + count(transformersName(nil)(mlp)[0]) }
	theirs := transformersName(depth)
	var found [2]int
	for _, l := range landmarks {
		for i, name := range []string{promptable.OriginalName(l)[0], theirs(l)[0]} {
			if _, ok := c.Type(name); ok {
				found[i]++
			}
		}
	}
	if found[0] > found[1] {
		layers := func(mlp string) int64 { return count(promptable.OriginalName(mlp)[0]) }
		return naming{promptable.OriginalName, false, layers}
	}
	return naming{theirs, true, depth}
}

func build(ckpt arch.Checkpoint, cfg arch.Config) (*arch.Model, error) {
	n := namingOf(ckpt)
	w := nn.NewWeights(ckpt, n.rename)
	c, err := readConfig(w, n, cfg)
	if err != nil {
		return nil, err
	}
	m := &arch.Model{Arch: "sam2", Facts: c.facts(n, cfg)}
	g, err := w.Graph("encode", nil, func(root nn.Scope) { encode(c, root) })
	if err != nil {
		return nil, err
	}
	m.Methods = append(m.Methods, g)
	for _, method := range promptable.DecodeMethods() {
		g, err := w.Graph(method.Name, method.Syms, func(root nn.Scope) { method.Build(c.SAM2, root) })
		if err != nil {
			return nil, err
		}
		m.Methods = append(m.Methods, g)
	}
	for _, prefix := range promptable.VideoParts {
		w.SkipAll(promptable.VideoReason, prefix)
	}
	const coarse = "of a level of the neck that the decoder does not use"
	for i, s := range c.stages[c.top+1:] {
		conv := len(c.stages) - 1 - (c.top + 1 + i)
		w.SkipAll(coarse, w.Source(fmt.Sprintf("image_encoder.neck.convs.%d.conv.", conv)))
		for _, b := range s.blocks {
			w.SkipAll(coarse, w.Source(fmt.Sprintf("%sblocks.%d.", trunk, b.number)))
		}
	}
	if m.Skipped, err = w.Finish(); err != nil {
		return nil, err
	}
	m.Params = w.Params()
	m.Task = c.Task()
	return m, nil
}

// unsupported returns the error for a configuration whose model neither release can run.
func unsupported(cfg arch.Config, key, format string, args ...any) error {
	return diag.New(arch.ErrConfig, cfg.Origin(key), "%s %s", key, fmt.Sprintf(format, args...))
}
