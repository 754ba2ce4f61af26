package sam3

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/internal/modeltest"
	"github.com/rlx-go/rlx/internal/synth"
	"github.com/rlx-go/rlx/models/arch"
)

// originalModules has the modules of the detector by the names of the library and of the original release, as the
// library's script that converts a checkpoint of the release pairs them. N stands for the number of a layer. A star
// marks modules that have the projections of q, k and v in one tensor in the release.
const originalModules = `
text_encoder.text_model.embeddings.token_embedding backbone.language_backbone.encoder.token_embedding
text_encoder.text_model.final_layer_norm backbone.language_backbone.encoder.ln_final
text_encoder.text_model.encoder.layers.N.self_attn* backbone.language_backbone.encoder.transformer.resblocks.N.attn
text_encoder.text_model.encoder.layers.N.self_attn.out_proj backbone.language_backbone.encoder.transformer.resblocks.N.attn.out_proj
text_encoder.text_model.encoder.layers.N.layer_norm1 backbone.language_backbone.encoder.transformer.resblocks.N.ln_1
text_encoder.text_model.encoder.layers.N.layer_norm2 backbone.language_backbone.encoder.transformer.resblocks.N.ln_2
text_encoder.text_model.encoder.layers.N.mlp.fc1 backbone.language_backbone.encoder.transformer.resblocks.N.mlp.c_fc
text_encoder.text_model.encoder.layers.N.mlp.fc2 backbone.language_backbone.encoder.transformer.resblocks.N.mlp.c_proj
text_projection backbone.language_backbone.resizer
geometry_encoder.label_embed geometry_encoder.label_embed
geometry_encoder.cls_embed geometry_encoder.cls_embed
geometry_encoder.boxes_direct_project geometry_encoder.boxes_direct_project
geometry_encoder.boxes_pool_project geometry_encoder.boxes_pool_project
geometry_encoder.boxes_pos_enc_project geometry_encoder.boxes_pos_enc_project
geometry_encoder.final_proj geometry_encoder.final_proj
geometry_encoder.vision_layer_norm geometry_encoder.img_pre_norm
geometry_encoder.prompt_layer_norm geometry_encoder.norm
geometry_encoder.output_layer_norm geometry_encoder.encode_norm
geometry_encoder.layers.N.self_attn* geometry_encoder.encode.N.self_attn
geometry_encoder.layers.N.self_attn.o_proj geometry_encoder.encode.N.self_attn.out_proj
geometry_encoder.layers.N.cross_attn* geometry_encoder.encode.N.cross_attn_image
geometry_encoder.layers.N.cross_attn.o_proj geometry_encoder.encode.N.cross_attn_image.out_proj
geometry_encoder.layers.N.mlp.fc1 geometry_encoder.encode.N.linear1
geometry_encoder.layers.N.mlp.fc2 geometry_encoder.encode.N.linear2
geometry_encoder.layers.N.layer_norm1 geometry_encoder.encode.N.norm1
geometry_encoder.layers.N.layer_norm2 geometry_encoder.encode.N.norm2
geometry_encoder.layers.N.layer_norm3 geometry_encoder.encode.N.norm3
detr_encoder.layers.N.self_attn* transformer.encoder.layers.N.self_attn
detr_encoder.layers.N.self_attn.o_proj transformer.encoder.layers.N.self_attn.out_proj
detr_encoder.layers.N.cross_attn* transformer.encoder.layers.N.cross_attn_image
detr_encoder.layers.N.cross_attn.o_proj transformer.encoder.layers.N.cross_attn_image.out_proj
detr_encoder.layers.N.mlp.fc1 transformer.encoder.layers.N.linear1
detr_encoder.layers.N.mlp.fc2 transformer.encoder.layers.N.linear2
detr_encoder.layers.N.layer_norm1 transformer.encoder.layers.N.norm1
detr_encoder.layers.N.layer_norm2 transformer.encoder.layers.N.norm2
detr_encoder.layers.N.layer_norm3 transformer.encoder.layers.N.norm3
detr_decoder.query_embed transformer.decoder.query_embed
detr_decoder.reference_points transformer.decoder.reference_points
detr_decoder.presence_token transformer.decoder.presence_token
detr_decoder.presence_head.layer1 transformer.decoder.presence_token_head.layers.0
detr_decoder.presence_head.layer2 transformer.decoder.presence_token_head.layers.1
detr_decoder.presence_head.layer3 transformer.decoder.presence_token_head.layers.2
detr_decoder.presence_layer_norm transformer.decoder.presence_token_out_norm
detr_decoder.output_layer_norm transformer.decoder.norm
detr_decoder.box_head.layer1 transformer.decoder.bbox_embed.layers.0
detr_decoder.box_head.layer2 transformer.decoder.bbox_embed.layers.1
detr_decoder.box_head.layer3 transformer.decoder.bbox_embed.layers.2
detr_decoder.ref_point_head.layer1 transformer.decoder.ref_point_head.layers.0
detr_decoder.ref_point_head.layer2 transformer.decoder.ref_point_head.layers.1
detr_decoder.box_rpb_embed_x.layer1 transformer.decoder.boxRPB_embed_x.layers.0
detr_decoder.box_rpb_embed_x.layer2 transformer.decoder.boxRPB_embed_x.layers.1
detr_decoder.box_rpb_embed_y.layer1 transformer.decoder.boxRPB_embed_y.layers.0
detr_decoder.box_rpb_embed_y.layer2 transformer.decoder.boxRPB_embed_y.layers.1
detr_decoder.layers.N.self_attn* transformer.decoder.layers.N.self_attn
detr_decoder.layers.N.self_attn.o_proj transformer.decoder.layers.N.self_attn.out_proj
detr_decoder.layers.N.text_cross_attn* transformer.decoder.layers.N.ca_text
detr_decoder.layers.N.text_cross_attn.o_proj transformer.decoder.layers.N.ca_text.out_proj
detr_decoder.layers.N.vision_cross_attn* transformer.decoder.layers.N.cross_attn
detr_decoder.layers.N.vision_cross_attn.o_proj transformer.decoder.layers.N.cross_attn.out_proj
detr_decoder.layers.N.mlp.fc1 transformer.decoder.layers.N.linear1
detr_decoder.layers.N.mlp.fc2 transformer.decoder.layers.N.linear2
detr_decoder.layers.N.vision_cross_attn_layer_norm transformer.decoder.layers.N.norm1
detr_decoder.layers.N.text_cross_attn_layer_norm transformer.decoder.layers.N.catext_norm
detr_decoder.layers.N.self_attn_layer_norm transformer.decoder.layers.N.norm2
detr_decoder.layers.N.mlp_layer_norm transformer.decoder.layers.N.norm3
dot_product_scoring.text_mlp.layer1 dot_prod_scoring.prompt_mlp.layers.0
dot_product_scoring.text_mlp.layer2 dot_prod_scoring.prompt_mlp.layers.1
dot_product_scoring.text_mlp_out_norm dot_prod_scoring.prompt_mlp.out_norm
dot_product_scoring.text_proj dot_prod_scoring.prompt_proj
dot_product_scoring.query_proj dot_prod_scoring.hs_proj
mask_decoder.pixel_decoder.conv_layers.N segmentation_head.pixel_decoder.conv_layers.N
mask_decoder.pixel_decoder.norms.N segmentation_head.pixel_decoder.norms.N
mask_decoder.mask_embedder.layers.N segmentation_head.mask_predictor.mask_embed.layers.N
mask_decoder.instance_projection segmentation_head.instance_seg_head
mask_decoder.semantic_projection segmentation_head.semantic_seg_head
mask_decoder.prompt_cross_attn* segmentation_head.cross_attend_prompt
mask_decoder.prompt_cross_attn.o_proj segmentation_head.cross_attend_prompt.out_proj
mask_decoder.prompt_cross_attn_norm segmentation_head.cross_attn_norm
`

var layer = regexp.MustCompile(`\.(\d+)\b`)

// original renames the manifest of a whole SAM 3 from the names of the library to those of the original release.
func original(t *testing.T) (out []synth.Entry) {
	t.Helper()
	modules := map[string]string{}
	for line := range strings.Lines(strings.TrimSpace(originalModules)) {
		library, release, _ := strings.Cut(strings.TrimSpace(line), " ")
		modules[library] = release
	}
	vision := map[string]string{} // the library's names of the vision part, by those of the release
	for _, e := range modeltest.Manifest(t, tiny) {
		for _, part := range library.names(strings.TrimPrefix(e.Name, originalPrefixes[0])) {
			for _, name := range arch.Parts(part) {
				vision[strings.TrimPrefix(name, "detector_model.")] = e.Name
			}
		}
	}
	for _, e := range modeltest.Manifest(t, whole) {
		e.Shape = slices.Clone(e.Shape)
		number := ""
		if m := layer.FindStringSubmatch(e.Name); m != nil {
			number = m[1]
		}
		at := strings.LastIndex(e.Name, ".")
		module, kind := layer.ReplaceAllString(e.Name[:at], ".N"), e.Name[at+1:]
		projection := regexp.MustCompile(`\.([qkv])_proj$`).FindStringSubmatch(module)
		switch release, ok := modules[module]; {
		case vision[e.Name] != "":
			if e.Name = vision[e.Name]; strings.Contains(e.Name, ".qkv.") {
				e.Shape[0] *= 3
			}
		case ok:
			e.Name = "detector." + strings.ReplaceAll(release, "N", number) + "." + kind
		case projection != nil && modules[strings.TrimSuffix(module, projection[0])+"*"] != "":
			release = modules[strings.TrimSuffix(module, projection[0])+"*"]
			e.Name = "detector." + strings.ReplaceAll(release, "N", number) + ".in_proj_" + kind
			e.Shape[0] *= 3
		case module == "text_encoder.text_model.embeddings.position_embedding":
			e.Name = "detector.backbone.language_backbone.encoder.positional_embedding"
		case e.Name == "text_encoder.text_projection.weight":
			e.Name = "detector.backbone.language_backbone.encoder.text_projection"
		default:
			t.Errorf("%s has no name in the original release", e.Name)
		}
		if !slices.ContainsFunc(out, func(o synth.Entry) bool { return o.Name == e.Name }) {
			out = append(out, e)
		}
	}
	return out
}

// TestOriginalNames builds the detector from a checkpoint with the names of the original release.
func TestOriginalNames(t *testing.T) {
	es := append(original(t),
		synth.Entry{Name: "detector.geometry_encoder.points_direct_project.weight", Shape: []int{32, 2}},
		synth.Entry{Name: "tracker.maskmem_tpos_enc", Shape: []int{7}})
	m := modeltest.Build(t, modeltest.Open(t, es, dtype.F32), whole+"config.json")
	if len(m.Methods) != 5 || m.Task == nil {
		t.Errorf("%d methods, task %v; want neck, encode, encode_text, detect and detect_boxes, and a task",
			len(m.Methods), m.Task)
	}
	if want := 7; len(m.Skipped) != want { // those two, CLIP's projection, and the stage with four tensors
		t.Errorf("%d unused tensors; want %d: %v", len(m.Skipped), want, m.Skipped)
	}
	want := map[string]string{
		"detr_decoder.layers.1.text_cross_attn.v_proj.weight": arch.Slice(
			"detector.transformer.decoder.layers.1.ca_text.in_proj_weight", 2, 3),
		"text_encoder.text_model.encoder.layers.0.self_attn.k_proj.bias": arch.Slice(
			"detector.backbone.language_backbone.encoder.transformer.resblocks.0.attn.in_proj_bias", 1, 3),
	}
	for _, p := range m.Params {
		if w, ok := want[p.Name]; ok && p.Source != w {
			t.Errorf("%s is %s; want %s", p.Name, p.Source, w)
		}
		delete(want, p.Name)
	}
	if len(want) > 0 {
		t.Errorf("no params %v", want)
	}
	const missing = "detector.transformer.decoder.layers.0.ca_text.in_proj_weight"
	es = slices.DeleteFunc(es, func(e synth.Entry) bool { return e.Name == missing })
	_, err := modeltest.TryBuild(modeltest.Open(t, es, dtype.F32), whole+"config.json")
	if err == nil || err.Error() != missing+": tensor is missing; expected [96,32]" {
		t.Errorf("%v; want %s to be missing", err, missing)
	}
}
