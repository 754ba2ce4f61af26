package sam3

import (
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/nn"
	"github.com/rlx-go/rlx/models/promptable"
)

// tracker begins our names of the tensors of the tracker, which promptable.SAM2 has below it.
const tracker = "tracker."

// trackerLandmarks are the tensors by which a checkpoint has the tracker. Its neck is beside the detector's.
func trackerLandmarks() []string {
	out := []string{trackerNeck + ".0.conv_1x1.weight"}
	for _, l := range promptable.Landmarks {
		out = append(out, tracker+l)
	}
	return out
}

const (
	trackerPart = "tracker_config."
	trackerNeck = "sam2_convs"
)

func init() { promptable.SAM2Keys(keys, trackerPart) }

// readTracker reads the decoder of clicks. It returns nil if the checkpoint has none, or no trunk for its neck.
func readTracker(w *nn.Weights, n naming, c config, cfg arch.Config) (*promptable.SAM2, error) {
	for _, l := range trackerLandmarks() {
		if _, ok := w.Type(l); !ok || !c.trunk {
			return nil, nil
		}
	}
	t, err := promptable.ReadSAM2(w, tracker, n.layers, cfg, trackerPart)
	if err != nil {
		return nil, err
	}
	t.ImageSize, t.Grid = c.grid*c.patch, c.grid
	if t.Embed != c.fpn {
		return nil, diag.New(arch.ErrTensor, w.Source(tracker+"mask_decoder.mask_tokens.weight"),
			"the tracker has %d channels and its neck %d; want one number", t.Embed, c.fpn)
	}
	return &t, nil
}

// returnClicks returns what the tracker's decoder takes of the tokens x [1,g,g,C] of the trunk. The release adds the
// embedding of an empty memory to the coarsest of three levels. Transformers' Sam3TrackerModel makes a fourth level,
// adds it to that, and then drops the level; its model of videos does what the release does.
func returnClicks(c config, root nn.Scope, x *ir.Node) {
	var levels []*ir.Node
	for i := range 3 {
		levels = append(levels, head(c, root.At(trackerNeck), i, x))
	}
	c.tracker.ReturnFeatures(root.At("tracker"), levels)
}

// trackerMethods adds the methods that turn clicks into masks.
func trackerMethods(w *nn.Weights, c config, m *arch.Model) error {
	for _, method := range promptable.DecodeMethods() {
		build := func(root nn.Scope) { method.Build(*c.tracker, root.At("tracker")) }
		g, err := w.Graph(method.Name, method.Syms, build)
		if err != nil {
			return err
		}
		m.Methods = append(m.Methods, g)
	}
	return nil
}

// skipTracker marks the tensors of the tracker that images do not need.
func skipTracker(w *nn.Weights, n naming) {
	for _, prefix := range promptable.VideoParts {
		w.SkipAll(promptable.VideoReason, n.trackerPrefix()+prefix)
	}
	for _, part := range originalVideoParts {
		w.SkipAll(promptable.VideoReason, n.trackerPrefix()+part)
	}
	const coarse = "of a level of the neck that the decoder does not use"
	if n.transformers {
		w.SkipAll(coarse, "tracker_neck.fpn_layers.3.")
	} else {
		w.SkipAll(coarse, n.prefix+trackerNeck+".3.")
	}
}

// originalVideoParts are the tensors of the memory in the original release that have other names than SAM 2's.
var originalVideoParts = []string{"maskmem_backbone.", "transformer."}
