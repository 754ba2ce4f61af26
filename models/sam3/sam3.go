// Package sam3 builds the vision part of SAM 3 (Carion et al., arXiv:2511.16719) from a checkpoint of the original
// release or of the Transformers library. Method encode turns an image into features of four scales. Method neck
// computes the features from the tokens of the trunk. On request, method sam2_neck does so with the heads of the
// tracker. Text encoder, detector and tracker are not built; their tensors are listed as unused.
//
// It imports models/nn and below; it reads no bytes and knows no device.
package sam3

import (
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/nn"
)

var _ = arch.Register(arch.Architecture{
	Name: "sam3", Title: "SAM 3 (Segment Anything with Concepts), vision",
	Types: []string{"sam3", "sam3_video", "sam3_vision_model"}, Recognise: recognise, Keys: keys, Build: build,
})

// landmarks lists tensors of the neck, in our names, that every SAM 3 has. The neck may be a checkpoint of its own.
var landmarks = []string{"convs.0.conv_1x1.weight", "convs.0.dconv_2x2_0.weight", "convs.1.dconv_2x2.weight"}

// trunkLandmark is a tensor that every trunk has.
const trunkLandmark = "trunk.patch_embed.proj.weight"

func recognise(c arch.Checkpoint) arch.Evidence {
	var e arch.Evidence
	for _, l := range landmarks {
		names := append(originalNames(l), transformersNames(l)...)
		if i := slices.IndexFunc(names, func(n string) bool { _, ok := c.Type(n); return ok }); i >= 0 {
			e.Found = append(e.Found, names[i])
		} else {
			e.Missing = append(e.Missing, names[0])
		}
	}
	return e
}

// namingOf returns the naming that a checkpoint uses. It is an error if it mixes both.
func namingOf(c arch.Checkpoint) (rename func(string) []string, transformers bool, err error) {
	find := func(names func(string) []string) string {
		for _, l := range append(slices.Clone(landmarks), trunkLandmark) {
			for _, n := range names(l) {
				if _, ok := c.Type(n); ok {
					return n
				}
			}
		}
		return ""
	}
	ours, theirs := find(originalNames), find(transformersNames)
	switch {
	case ours != "" && theirs != "":
		return nil, false,
			diag.New(
				arch.ErrTensor, ours,
				"is a name of the original release, and %s is one of Transformers; use the names of one release only",
				theirs)
	case theirs != "":
		return transformersNames, true, nil
	}
	return originalNames, false, nil
}

func build(ckpt arch.Checkpoint, cfg arch.Config) (*arch.Model, error) {
	rename, transformers, err := namingOf(ckpt)
	if err != nil {
		return nil, err
	}
	if err := cfg.Lift("detector_config"); err != nil { // in configurations of the video model
		return nil, err
	}
	w := nn.NewWeights(ckpt, rename)
	c, err := readConfig(w, transformers, cfg)
	if err != nil {
		return nil, err
	}
	m := &arch.Model{Arch: "sam3", Facts: c.facts(cfg)}
	for _, method := range []struct {
		name  string
		has   bool
		build func(config, nn.Scope)
	}{
		{"neck", true, func(c config, root nn.Scope) { neckAlone(c, root, "convs") }},
		{"encode", c.trunk, encode},
		{"sam2_neck", c.sam2, func(c config, root nn.Scope) { neckAlone(c, root, "sam2_convs") }},
	} {
		if !method.has {
			continue
		}
		g, err := w.Graph(method.name, nil, func(root nn.Scope) { method.build(c, root) })
		if err != nil {
			return nil, err
		}
		m.Methods = append(m.Methods, g)
	}
	skip(w, ckpt)
	if m.Skipped, err = w.Finish(); err != nil {
		return nil, err
	}
	m.Params = w.Params()
	return m, nil
}

// skip marks the tensors of a SAM 3 that no method uses.
func skip(w *nn.Weights, ckpt arch.Checkpoint) {
	for _, p := range otherParts {
		w.SkipAll(p.reason, p.prefix)
	}
	for _, n := range ckpt.Names() {
		inside := strings.HasPrefix(n, originalPrefix) ||
			slices.ContainsFunc(transformersPrefixes, func(p string) bool { return strings.HasPrefix(n, p) })
		switch part := strings.HasPrefix(n, "detector.") || strings.HasPrefix(n, "detector_model."); {
		case strings.HasSuffix(n, ".freqs_cis"):
			w.SkipAll("a rotary table, which follows from the configuration", n)
		case part && !inside:
			w.SkipAll("text encoder, fusion or detector: only the vision part is built", n)
		}
	}
}

// returnLevels adds features and positions of all levels to the results of g.
func returnLevels(g *ir.Graph, levels []level) {
	for _, l := range levels {
		g.Return(l.name+".features", l.features)
		g.Return(l.name+".pos", l.pos)
	}
}
