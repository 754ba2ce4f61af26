package sam3

import (
	"strings"

	"github.com/rlx-go/rlx/internal/lazyregexp"
	"github.com/rlx-go/rlx/models/arch"
)

// originalRules rewrite our names of the detector's tensors, which are those of the Transformers library, to the names
// of the original release. All rules that match apply, in their order.
var originalRules = []struct {
	re *lazyregexp.Regexp
	to string
}{
	// text encoder
	{lazyregexp.New(`^text_projection\.`), "backbone.language_backbone.resizer."},
	{lazyregexp.New(`^text_encoder\.text_model\.`), "backbone.language_backbone.encoder."},
	{lazyregexp.New(`\.embeddings\.token_embedding\.`), ".token_embedding."},
	{lazyregexp.New(`\.embeddings\.position_embedding\.weight$`), ".positional_embedding"},
	{lazyregexp.New(`\.final_layer_norm\.`), ".ln_final."},
	{lazyregexp.New(`\.encoder\.encoder\.layers\.`), ".encoder.transformer.resblocks."},
	{lazyregexp.New(`(\.resblocks\.\d+)\.layer_norm(\d)\.`), "$1.ln_$2."},
	{lazyregexp.New(`(\.resblocks\.\d+)\.mlp\.fc1\.`), "$1.mlp.c_fc."},
	{lazyregexp.New(`(\.resblocks\.\d+)\.mlp\.fc2\.`), "$1.mlp.c_proj."},
	{lazyregexp.New(`(\.resblocks\.\d+)\.self_attn\.`), "$1.attn."},
	// geometry encoder
	{lazyregexp.New(`^geometry_encoder\.layers\.(\d+)\.cross_attn\.`), "geometry_encoder.encode.$1.cross_attn_image."},
	{lazyregexp.New(`^geometry_encoder\.layers\.`), "geometry_encoder.encode."},
	{lazyregexp.New(`^geometry_encoder\.vision_layer_norm\.`), "geometry_encoder.img_pre_norm."},
	{lazyregexp.New(`^geometry_encoder\.prompt_layer_norm\.`), "geometry_encoder.norm."},
	{lazyregexp.New(`^geometry_encoder\.output_layer_norm\.`), "geometry_encoder.encode_norm."},
	// encoder
	{lazyregexp.New(`^detr_encoder\.layers\.(\d+)\.cross_attn\.`), "transformer.encoder.layers.$1.cross_attn_image."},
	{lazyregexp.New(`^detr_encoder\.`), "transformer.encoder."},
	// decoder
	{lazyregexp.New(`^detr_decoder\.`), "transformer.decoder."},
	{lazyregexp.New(`\.presence_head\.`), ".presence_token_head."},
	{lazyregexp.New(`\.presence_layer_norm\.`), ".presence_token_out_norm."},
	{lazyregexp.New(`^transformer\.decoder\.output_layer_norm\.`), "transformer.decoder.norm."},
	{lazyregexp.New(`\.box_head\.`), ".bbox_embed."},
	{lazyregexp.New(`\.box_rpb_embed_([xy])\.`), ".boxRPB_embed_$1."},
	{lazyregexp.New(`\.text_cross_attn\.`), ".ca_text."},
	{lazyregexp.New(`\.vision_cross_attn\.`), ".cross_attn."},
	{lazyregexp.New(`\.vision_cross_attn_layer_norm\.`), ".norm1."},
	{lazyregexp.New(`\.text_cross_attn_layer_norm\.`), ".catext_norm."},
	{lazyregexp.New(`\.self_attn_layer_norm\.`), ".norm2."},
	{lazyregexp.New(`\.mlp_layer_norm\.`), ".norm3."},
	// scores
	{lazyregexp.New(`^dot_product_scoring\.text_mlp_out_norm\.`), "dot_prod_scoring.prompt_mlp.out_norm."},
	{lazyregexp.New(`^dot_product_scoring\.text_`), "dot_prod_scoring.prompt_"},
	{lazyregexp.New(`^dot_product_scoring\.query_proj\.`), "dot_prod_scoring.hs_proj."},
	// masks
	{lazyregexp.New(`^mask_decoder\.`), "segmentation_head."},
	{lazyregexp.New(`^segmentation_head\.mask_embedder\.`), "segmentation_head.mask_predictor.mask_embed."},
	{lazyregexp.New(`\.instance_projection\.`), ".instance_seg_head."},
	{lazyregexp.New(`\.semantic_projection\.`), ".semantic_seg_head."},
	{lazyregexp.New(`\.prompt_cross_attn\.`), ".cross_attend_prompt."},
	{lazyregexp.New(`\.prompt_cross_attn_norm\.`), ".cross_attn_norm."},
	// layers of all parts but the text encoder
	{lazyregexp.New(`\.layer_norm(\d)\.`), ".norm$1."},
	{lazyregexp.New(`\.(\d+)\.mlp\.fc(\d)\.`), ".$1.linear$2."},
	{lazyregexp.New(`\.o_proj\.`), ".out_proj."},
	// MLPs have layers from 0 on; the library numbers them from 1
	{lazyregexp.New(`\.layer1\.`), ".layers.0."},
	{lazyregexp.New(`\.layer2\.`), ".layers.1."},
	{lazyregexp.New(`\.layer3\.`), ".layers.2."},
}

// separate matches the projections that the original release has in one tensor.
var separate = lazyregexp.New(`\.([qkv])_proj\.(weight|bias)$`)

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
