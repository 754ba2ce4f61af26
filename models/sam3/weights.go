package sam3

import (
	"regexp"
	"strings"

	"github.com/rlx-go/rlx/models/arch"
)

// originalPrefix precedes our names in the original release: trunk.blocks.0.attn.proj.weight, convs.0.conv_1x1.weight.
const originalPrefix = "detector.backbone.vision_backbone."

// transformersPrefixes lists the prefixes of the library's names: in a whole checkpoint, and in one of the detector.
var transformersPrefixes = []string{"detector_model.vision_encoder.", "vision_encoder."}

const sam2Reason = "heads of the tracker, which the detector does not use; --set " + keySAM2 +
	"=true builds method sam2_neck of them"

// otherParts lists the tensors of a whole checkpoint from which no method is built, with the reason.
var otherParts = []struct{ prefix, reason string }{
	{originalPrefix + "sam2_convs.", sam2Reason},
	{"tracker.", "the tracker: only the vision part is built"},
	{"tracker_model.", "the tracker: only the vision part is built"},
	{"tracker_neck.", sam2Reason},
	{"text_encoder.", "text encoder, fusion or detector: only the vision part is built"},
	{"text_projection.", "text encoder, fusion or detector: only the vision part is built"},
	{"geometry_encoder.", "text encoder, fusion or detector: only the vision part is built"},
	{"detr_encoder.", "text encoder, fusion or detector: only the vision part is built"},
	{"detr_decoder.", "text encoder, fusion or detector: only the vision part is built"},
	{"mask_decoder.", "text encoder, fusion or detector: only the vision part is built"},
	{"dot_product_scoring.", "text encoder, fusion or detector: only the vision part is built"},
}

const part = "{q,k,v}"

// rules rewrite our names to those of the Transformers library, which has three tensors for q, k and v. These are
// joined: part stands for their letters.
var rules = []struct {
	re *regexp.Regexp
	to string
}{
	{regexp.MustCompile(`^trunk\.pos_embed$`), "backbone.embeddings.position_embeddings"},
	{regexp.MustCompile(`^trunk\.patch_embed\.proj\.`), "backbone.embeddings.patch_embeddings.projection."},
	{regexp.MustCompile(`^trunk\.ln_pre\.`), "backbone.layer_norm."},
	{regexp.MustCompile(`^trunk\.blocks\.(\d+)\.norm(\d)\.`), "backbone.layers.$1.layer_norm$2."},
	{regexp.MustCompile(`^trunk\.blocks\.(\d+)\.attn\.proj\.`), "backbone.layers.$1.attention.o_proj."},
	{regexp.MustCompile(`^trunk\.blocks\.(\d+)\.attn\.qkv\.`), "backbone.layers.$1.attention." + part + "_proj."},
	{regexp.MustCompile(`^trunk\.blocks\.`), "backbone.layers."},
	{regexp.MustCompile(`^convs\.0\.dconv_2x2_0\.`), "neck.fpn_layers.0.scale_layers.0."},
	{regexp.MustCompile(`^convs\.0\.dconv_2x2_1\.`), "neck.fpn_layers.0.scale_layers.2."},
	{regexp.MustCompile(`^convs\.1\.dconv_2x2\.`), "neck.fpn_layers.1.scale_layers.0."},
	{regexp.MustCompile(`^convs\.(\d+)\.conv_1x1\.`), "neck.fpn_layers.$1.proj1."},
	{regexp.MustCompile(`^convs\.(\d+)\.conv_3x3\.`), "neck.fpn_layers.$1.proj2."},
}

func originalNames(name string) []string { return []string{originalPrefix + name} }

func transformersNames(name string) (out []string) {
	if head, ok := strings.CutPrefix(name, "sam2_"); ok { // a second neck beside the detector
		return []string{"tracker_" + rewritten(head)}
	}
	name = rewritten(name)
	for _, prefix := range transformersPrefixes {
		if name := prefix + name; strings.Contains(name, part) {
			at := func(letter string) string { return strings.Replace(name, part, letter, 1) }
			out = append(out, arch.Join(at("q"), at("k"), at("v")))
		} else {
			out = append(out, name)
		}
	}
	return out
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
