package sam3

import (
	"regexp"
	"strings"

	"github.com/rlx-go/rlx/models/arch"
)

// originalRules rewrite our names of the detector's tensors, which are those of the Transformers library, to the names
// of the original release. All rules that match apply, in their order.
var originalRules = []struct {
	re *regexp.Regexp
	to string
}{
	// text encoder
	{regexp.MustCompile(`^text_projection\.`), "backbone.language_backbone.resizer."},
	{regexp.MustCompile(`^text_encoder\.text_model\.`), "backbone.language_backbone.encoder."},
	{regexp.MustCompile(`\.embeddings\.token_embedding\.`), ".token_embedding."},
	{regexp.MustCompile(`\.embeddings\.position_embedding\.weight$`), ".positional_embedding"},
	{regexp.MustCompile(`\.final_layer_norm\.`), ".ln_final."},
	{regexp.MustCompile(`\.encoder\.encoder\.layers\.`), ".encoder.transformer.resblocks."},
	{regexp.MustCompile(`(\.resblocks\.\d+)\.layer_norm(\d)\.`), "$1.ln_$2."},
	{regexp.MustCompile(`(\.resblocks\.\d+)\.mlp\.fc1\.`), "$1.mlp.c_fc."},
	{regexp.MustCompile(`(\.resblocks\.\d+)\.mlp\.fc2\.`), "$1.mlp.c_proj."},
	{regexp.MustCompile(`(\.resblocks\.\d+)\.self_attn\.`), "$1.attn."},
	// geometry encoder
	{regexp.MustCompile(`^geometry_encoder\.layers\.(\d+)\.cross_attn\.`), "geometry_encoder.encode.$1.cross_attn_image."},
	{regexp.MustCompile(`^geometry_encoder\.layers\.`), "geometry_encoder.encode."},
	{regexp.MustCompile(`^geometry_encoder\.vision_layer_norm\.`), "geometry_encoder.img_pre_norm."},
	{regexp.MustCompile(`^geometry_encoder\.prompt_layer_norm\.`), "geometry_encoder.norm."},
	{regexp.MustCompile(`^geometry_encoder\.output_layer_norm\.`), "geometry_encoder.encode_norm."},
	// encoder
	{regexp.MustCompile(`^detr_encoder\.layers\.(\d+)\.cross_attn\.`), "transformer.encoder.layers.$1.cross_attn_image."},
	{regexp.MustCompile(`^detr_encoder\.`), "transformer.encoder."},
	// decoder
	{regexp.MustCompile(`^detr_decoder\.`), "transformer.decoder."},
	{regexp.MustCompile(`\.presence_head\.`), ".presence_token_head."},
	{regexp.MustCompile(`\.presence_layer_norm\.`), ".presence_token_out_norm."},
	{regexp.MustCompile(`^transformer\.decoder\.output_layer_norm\.`), "transformer.decoder.norm."},
	{regexp.MustCompile(`\.box_head\.`), ".bbox_embed."},
	{regexp.MustCompile(`\.box_rpb_embed_([xy])\.`), ".boxRPB_embed_$1."},
	{regexp.MustCompile(`\.text_cross_attn\.`), ".ca_text."},
	{regexp.MustCompile(`\.vision_cross_attn\.`), ".cross_attn."},
	{regexp.MustCompile(`\.vision_cross_attn_layer_norm\.`), ".norm1."},
	{regexp.MustCompile(`\.text_cross_attn_layer_norm\.`), ".catext_norm."},
	{regexp.MustCompile(`\.self_attn_layer_norm\.`), ".norm2."},
	{regexp.MustCompile(`\.mlp_layer_norm\.`), ".norm3."},
	// scores
	{regexp.MustCompile(`^dot_product_scoring\.text_mlp_out_norm\.`), "dot_prod_scoring.prompt_mlp.out_norm."},
	{regexp.MustCompile(`^dot_product_scoring\.text_`), "dot_prod_scoring.prompt_"},
	{regexp.MustCompile(`^dot_product_scoring\.query_proj\.`), "dot_prod_scoring.hs_proj."},
	// masks
	{regexp.MustCompile(`^mask_decoder\.`), "segmentation_head."},
	{regexp.MustCompile(`^segmentation_head\.mask_embedder\.`), "segmentation_head.mask_predictor.mask_embed."},
	{regexp.MustCompile(`\.instance_projection\.`), ".instance_seg_head."},
	{regexp.MustCompile(`\.semantic_projection\.`), ".semantic_seg_head."},
	{regexp.MustCompile(`\.prompt_cross_attn\.`), ".cross_attend_prompt."},
	{regexp.MustCompile(`\.prompt_cross_attn_norm\.`), ".cross_attn_norm."},
	// layers of all parts but the text encoder
	{regexp.MustCompile(`\.layer_norm(\d)\.`), ".norm$1."},
	{regexp.MustCompile(`\.(\d+)\.mlp\.fc(\d)\.`), ".$1.linear$2."},
	{regexp.MustCompile(`\.o_proj\.`), ".out_proj."},
	// MLPs have layers from 0 on; the library numbers them from 1
	{regexp.MustCompile(`\.layer1\.`), ".layers.0."},
	{regexp.MustCompile(`\.layer2\.`), ".layers.1."},
	{regexp.MustCompile(`\.layer3\.`), ".layers.2."},
}

// separate matches the projections that the original release has in one tensor.
var separate = regexp.MustCompile(`\.([qkv])_proj\.(weight|bias)$`)

// originalDetector returns the name of one of our tensors of the detector in the original release.
func originalDetector(name string) string {
	for _, r := range originalRules {
		name = r.re.ReplaceAllString(name, r.to)
	}
	m := separate.FindStringSubmatch(name)
	if m == nil {
		return name
	}
	name = strings.TrimSuffix(name, m[0]) + ".in_proj_" + m[2]
	return arch.Slice(name, strings.Index("qkv", m[1]), 3)
}
