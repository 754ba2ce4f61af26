// Package sam3 builds SAM 3 for images (Carion et al., arXiv:2511.16719) from a checkpoint of the original
// release or of the Transformers library. Method encode turns an image into features of four scales. Method neck
// computes the features from the tokens of the trunk. On request, method sam2_neck does so with the heads of the
// tracker. From a checkpoint with the detector, method encode_text turns tokens of a text into features, and methods
// detect and detect_boxes find the objects that a text, or a text and boxes, describe: boxes, scores and masks. The
// tracker is not built. The tensors of other parts are listed as unused.
//
// It imports models/promptable, models/nn and below; it reads no bytes and knows no device.
package sam3

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/nn"
)

var _ = arch.Register(arch.Architecture{
	Name: "sam3", Title: "SAM 3 (Segment Anything with Concepts)",
	Types: []string{"sam3", "sam3_video", "sam3_vision_model"}, Recognise: recognise, Keys: keys, Build: build,
})

// landmarks lists tensors of the neck, in our names, that every SAM 3 has. The neck may be a checkpoint of its own.
var landmarks = []string{"convs.0.conv_1x1.weight", "convs.0.dconv_2x2_0.weight", "convs.1.dconv_2x2.weight"}

// trunkLandmark is a tensor that every trunk has.
const trunkLandmark = "trunk.patch_embed.proj.weight"

func recognise(c arch.Checkpoint) arch.Evidence {
	var e arch.Evidence
	for _, l := range landmarks {
		var names []string
		for _, n := range namings() {
			names = append(names, n.names(l)...)
		}
		if i := slices.IndexFunc(names, func(n string) bool { _, ok := c.Type(n); return ok }); i >= 0 {
			e.Found = append(e.Found, names[i])
		} else {
			e.Missing = append(e.Missing, names[0])
		}
	}
	return e
}

// namingOf returns the naming that a checkpoint uses. It is an error if it uses several.
func namingOf(c arch.Checkpoint) (found naming, err error) {
	example := "" // of the names in that naming
	for _, n := range namings() {
		for _, l := range append(slices.Clone(landmarks), trunkLandmark) {
			name := n.names(l)[0]
			if _, ok := c.Type(name); !ok {
				continue
			}
			if example != "" {
				return n, diag.New(arch.ErrTensor, example,
					"is %s, and %s is %s; use the names of one release only", found, name, n)
			}
			found, example = n, name
			break
		}
	}
	if example == "" {
		found = namings()[0]
	}
	found.layers = func(mlp string) int64 { return trackerLayers(c, found, mlp) }
	return found, nil
}

func (n naming) String() string {
	release := "the original release"
	if n.transformers {
		release = "Transformers"
	}
	return fmt.Sprintf("a name of %s with prefix %s", release, n.prefix)
}

func build(ckpt arch.Checkpoint, cfg arch.Config) (*arch.Model, error) {
	names, err := namingOf(ckpt)
	if err != nil {
		return nil, err
	}
	if err := cfg.Lift("detector_config"); err != nil { // in configurations of the video model
		return nil, err
	}
	w := nn.NewWeights(ckpt, names.names)
	c, err := readConfig(w, names, cfg)
	if err != nil {
		return nil, err
	}
	m := &arch.Model{Arch: "sam3", Facts: c.facts(cfg)}
	var tokens ir.Syms // of a text
	if c.detector != nil {
		tokens = ir.Syms{{Name: "N", Min: 1, Max: c.detector.text.positions}}
	}
	for _, method := range []struct {
		name  string
		has   bool
		syms  ir.Syms
		build func(config, nn.Scope)
	}{
		{"neck", true, nil, func(c config, root nn.Scope) { neckAlone(c, root, "convs") }},
		{"encode", c.trunk, nil, encode},
		{"sam2_neck", c.sam2, nil, func(c config, root nn.Scope) { neckAlone(c, root, "sam2_convs") }},
		{"encode_text", c.detector != nil, tokens, encodeText},
		{"detect", c.detector != nil, tokens, func(c config, root nn.Scope) { detect(c, root, false) }},
		{"detect_boxes", c.detector != nil, append(tokens[:len(tokens):len(tokens)],
			ir.Sym{Name: "M", Min: 1, Max: maxBoxes}), func(c config, root nn.Scope) { detect(c, root, true) }},
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
	if c.tracker != nil {
		if err := trackerMethods(w, c, m); err != nil {
			return nil, err
		}
	}
	skip(w, ckpt, names, c.detector != nil)
	if c.tracker != nil {
		skipTracker(w, names)
	}
	if m.Skipped, err = w.Finish(); err != nil {
		return nil, err
	}
	m.Params = w.Params()
	switch {
	case !c.trunk:
		return m, nil
	case c.detector != nil:
		return m, describe(c, cfg, m)
	case c.tracker != nil:
		m.Task = clicks(c)
	}
	return m, nil
}

// skip marks the tensors of a SAM 3 that no method uses.
func skip(w *nn.Weights, ckpt arch.Checkpoint, names naming, detector bool) {
	w.SkipAll(sam2Reason, names.prefix+"sam2_convs.")
	for _, p := range otherParts {
		if !detector || p.reason != partReason {
			w.SkipAll(p.reason, p.prefix)
		}
	}
	if detector {
		w.SkipAll("a third stage of the pixel decoder, which has two", names.names(pixelStage)[0])
		for _, n := range []string{"text_encoder.text_projection.weight",
			"backbone.language_backbone.encoder.text_projection"} {
			w.SkipAll("CLIP's own projection of a text, which the detector does not use", names.outer()+n)
		}
		w.SkipAll("points as examples, which the release does not use", names.outer()+"geometry_encoder.points_")
	}
	for _, n := range ckpt.Names() {
		inside := strings.HasPrefix(n, names.prefix)
		switch part := strings.HasPrefix(n, "detector.") || strings.HasPrefix(n, "detector_model."); {
		case strings.HasSuffix(n, ".position_ids"):
			w.SkipAll("numbers from 0 on", n)
		case strings.HasSuffix(n, ".freqs_cis"):
			w.SkipAll("a rotary table, which follows from the configuration", n)
		case part && !inside && !detector:
			w.SkipAll(partReason, n)
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
