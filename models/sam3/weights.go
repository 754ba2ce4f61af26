package sam3

import (
	"strings"

	"github.com/rlx-go/rlx/internal/lazyregexp"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/promptable"
)

// originalPrefixes precede our names in the original release (trunk.blocks.0.attn.proj.weight,
// convs.0.conv_1x1.weight): in a whole checkpoint, in one of the detector, and in one of its backbone.
var originalPrefixes = []string{"detector.backbone.vision_backbone.", "backbone.vision_backbone.", "vision_backbone."}

// transformersPrefixes precede the library's names: in a whole checkpoint, and in one of the detector.
var transformersPrefixes = []string{"detector_model.vision_encoder.", "vision_encoder."}

// A naming is one way to name the tensors of a SAM 3.
type naming struct {
	prefix       string
	transformers bool // the names after the prefix are those of the Transformers library
	// layers returns the number of layers of an MLP of the tracker, by our name. It depends on the checkpoint.
	layers func(mlp string) int64
}

// namings lists all ways, the most likely first.
func namings() (out []naming) {
	for _, p := range originalPrefixes {
		out = append(out, naming{prefix: p})
	}
	for _, p := range transformersPrefixes {
		out = append(out, naming{prefix: p, transformers: true})
	}
	return out
}

// names returns the name of a tensor in the checkpoint. It is a list because nn.Weights takes one.
func (n naming) names(name string) []string {
	if inside, ok := strings.CutPrefix(name, tracker); ok {
		return n.trackerNames(inside)
	}
	first, _, _ := strings.Cut(name, ".")
	switch {
	case n.transformers:
	case detectorParts[first]:
		return []string{n.outer() + originalDetector(name)}
	default:
		return []string{n.prefix + name}
	}
	if head, ok := strings.CutPrefix(name, "sam2_"); ok { // a second neck beside the detector
		return []string{"tracker_" + rewritten(head)}
	}
	if detectorParts[first] {
		return []string{n.outer() + name}
	}
	name = n.prefix + rewritten(name)
	if !strings.Contains(name, part) {
		return []string{name}
	}
	at := func(letter string) string { return strings.Replace(name, part, letter, 1) }
	return []string{arch.Join(at("q"), at("k"), at("v"))}
}

// trackerPrefix returns the prefix of the names of the tracker.
func (n naming) trackerPrefix() string {
	if n.transformers {
		return "tracker_model."
	}
	return "tracker."
}

// trackerNames returns the names of a tensor of the tracker, without tracker before our name.
func (n naming) trackerNames(name string) (out []string) {
	if n.transformers {
		depth := func(mlp string) int64 { return n.layers(tracker + mlp) }
		out = promptable.TransformersName(depth)(name)
	} else {
		out = promptable.OriginalName(name)
		if m := tokenMLP.FindStringSubmatch(out[0]); m != nil { // as in the release of SAM
			out = append(out, m[1]+map[string]string{"0": "lin1", "1": "lin2"}[m[2]]+m[3])
		}
	}
	for i, x := range out {
		var parts []string
		for _, part := range arch.Parts(x) {
			parts = append(parts, n.trackerPrefix()+part)
		}
		out[i] = parts[0]
		if len(parts) > 1 {
			out[i] = arch.Join(parts...)
		}
	}
	return out
}

// tokenMLP matches the original names of the MLPs in the layers of the tracker's decoder.
var tokenMLP = lazyregexp.New(`^(.*\.transformer\.layers\.\d+\.mlp\.)layers\.([01])(\..*)$`)

// trackerLayers returns the number of layers of an MLP of the tracker, by our name.
func trackerLayers(c arch.Checkpoint, n naming, mlp string) int64 {
	name := strings.TrimPrefix(mlp, tracker)
	if n.transformers { // two layers have names of their own
		return 2 + promptable.Numbered(c, n.trackerPrefix()+promptable.TransformersName(nil)(name)[0])
	}
	name = n.trackerPrefix() + promptable.OriginalName(name)[0]
	if _, ok := c.Type(name + "lin1.weight"); ok {
		return 2
	}
	return promptable.Numbered(c, name)
}

// outer returns the prefix of the names of the detector's parts.
func (n naming) outer() string {
	return strings.TrimSuffix(strings.TrimSuffix(n.prefix, "vision_encoder."), "backbone.vision_backbone.")
}

// detectorParts has the first part of our names of the detector's tensors, which are the library's.
var detectorParts = map[string]bool{"text_encoder": true, "text_projection": true, "geometry_encoder": true,
	"detr_encoder": true, "detr_decoder": true, "mask_decoder": true, "dot_product_scoring": true}

// pixelStage begins our names of the layers of the pixel decoder that are trained but not used: it has one stage for
// each pair of levels, and the release has one stage more.
const pixelStage = "mask_decoder.pixel_decoder."

const sam2Reason = "heads of the tracker, which the detector does not use; --set " + keySAM2 +
	"=true builds method sam2_neck of them"

const trackerReason = "the tracker: built from a whole checkpoint only"

const partReason = "text encoder, fusion or detector: built from a whole checkpoint only"

// otherParts lists the tensors of a whole checkpoint from which no method is built, with the reason.
var otherParts = []struct{ prefix, reason string }{
	{"tracker.", trackerReason},
	{"tracker_model.", trackerReason},
	{"tracker_neck.", sam2Reason},
	{"text_encoder.", partReason}, // from here on, the names in a checkpoint of the library's detector
	{"text_projection.", partReason},
	{"geometry_encoder.", partReason},
	{"detr_encoder.", partReason},
	{"detr_decoder.", partReason},
	{"mask_decoder.", partReason},
	{"dot_product_scoring.", partReason},
	{"backbone.language_backbone.", partReason}, // and those of the original release
	{"language_backbone.", partReason},
	{"transformer.", partReason},
	{"segmentation_head.", partReason},
	{"dot_prod_scoring.", partReason},
}

const part = "{q,k,v}"

// rules rewrite our names to the names of the Transformers library. The library has three tensors for q, k and v, which
// are joined: part stands for their letters.
var rules = []struct {
	re *lazyregexp.Regexp
	to string
}{
	{lazyregexp.New(`^trunk\.pos_embed$`), "backbone.embeddings.position_embeddings"},
	{lazyregexp.New(`^trunk\.patch_embed\.proj\.`), "backbone.embeddings.patch_embeddings.projection."},
	{lazyregexp.New(`^trunk\.ln_pre\.`), "backbone.layer_norm."},
	{lazyregexp.New(`^trunk\.blocks\.(\d+)\.norm(\d)\.`), "backbone.layers.$1.layer_norm$2."},
	{lazyregexp.New(`^trunk\.blocks\.(\d+)\.attn\.proj\.`), "backbone.layers.$1.attention.o_proj."},
	{lazyregexp.New(`^trunk\.blocks\.(\d+)\.attn\.qkv\.`), "backbone.layers.$1.attention." + part + "_proj."},
	{lazyregexp.New(`^trunk\.blocks\.`), "backbone.layers."},
	{lazyregexp.New(`^convs\.0\.dconv_2x2_0\.`), "neck.fpn_layers.0.scale_layers.0."},
	{lazyregexp.New(`^convs\.0\.dconv_2x2_1\.`), "neck.fpn_layers.0.scale_layers.2."},
	{lazyregexp.New(`^convs\.1\.dconv_2x2\.`), "neck.fpn_layers.1.scale_layers.0."},
	{lazyregexp.New(`^convs\.(\d+)\.conv_1x1\.`), "neck.fpn_layers.$1.proj1."},
	{lazyregexp.New(`^convs\.(\d+)\.conv_3x3\.`), "neck.fpn_layers.$1.proj2."},
}

// rewritten returns the name of a tensor in the library without its prefix.
func rewritten(name string) string {
	for _, r := range rules {
		if r.re.MatchString(name) {
			return r.re.ReplaceAllString(name, r.to)
		}
	}
	return name
}
