package sam3

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/modeltest"
	"github.com/rlx-go/rlx/internal/synth"
	"github.com/rlx-go/rlx/internal/tensortest"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/promptable"
	"github.com/rlx-go/rlx/plugins/cpu/backend"
	"github.com/rlx-go/rlx/task"
)

const (
	clicks3  = "../../testdata/goldens/sam3_clicks/"
	concepts = "../../testdata/goldens/sam3_concepts/"
)

// clicksManifest returns a whole checkpoint with the tracker.
func clicksManifest(t *testing.T) []synth.Entry {
	t.Helper()
	return append(modeltest.Manifest(t, concepts), modeltest.Manifest(t, clicks3)...)
}

// TestClicks compares what the tracker takes of an image, and its masks for points, boxes and a mask, with
// Transformers, on every target of the cpu backend.
func TestClicks(t *testing.T) {
	s, c := modeltest.Open(t, clicksManifest(t), dtype.F32), modeltest.OpenSAM2(t, clicks3)
	const delta = trackerPart + "mask_decoder_config.dynamic_multimask_stability_delta"
	compiled := modeltest.Compile(t, modeltest.Build(t, s, c.Config), s)
	for _, target := range modeltest.Targets() {
		run := func(compiled modeltest.Compiled, method string, syms map[string]int64,
			in map[string]*tensor.Array) map[string]*tensor.Array {
			p := compiled.Find(t, method, target.Name)
			x, err := backend.Backend{}.Load(t.Context(),
				device.Load{Program: p, Weights: compiled.Weights, Threads: 2})
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			return devicetest.Once(t, x, p, syms, in)
		}
		features := c.Features(t)
		out := run(compiled, "encode", nil, map[string]*tensor.Array{"image": c.Image})
		for name, want := range features {
			tensortest.Near(t, name+" on "+target.Name, out[name], want, 1e-5)
		}
		for _, p := range c.Prompts {
			with := compiled
			if p.Delta != 0 {
				if target.Name != modeltest.Targets()[0].Name {
					continue
				}
				m := modeltest.Build(t, s, c.Config, fmt.Sprint(delta, "=", p.Delta))
				m.Methods = slices.DeleteFunc(m.Methods, func(g *ir.Graph) bool { return g.Name != "decode" })
				with = modeltest.Compile(t, m, s, modeltest.Targets()[:1]...)
			}
			in := maps.Clone(features)
			maps.Copy(in, p.Inputs)
			out := run(with, "decode", map[string]int64{"N": int64(p.Points)}, in)
			p.Check(t, out, 2e-5)
			tensortest.Near(t, p.Name+" object on "+target.Name, out["object_score"],
				tensortest.Golden(t, clicks3+"golden.safetensors:"+p.Name+".object_score"), 2e-5)
		}
	}
}

// TestClicksTask checks the task of a whole checkpoint, and of one without the detector.
func TestClicksTask(t *testing.T) {
	m := modeltest.Build(t, modeltest.Open(t, clicksManifest(t), dtype.F32), clicks3+"config.json")
	both, ok := m.Task.(*task.Concepts)
	if !ok || both.Clicks.Mean != both.Mean || both.Clicks.PromptMethod != "decode" || both.Clicks.MaskSide != 32 ||
		both.Validate() != nil {
		t.Errorf("the task is %+v", m.Task)
	}
	if want := 7 + 4; len(m.Methods) != 7 || len(m.Skipped) != want-2 {
		t.Errorf("%d methods, %d unused tensors: %v", len(m.Methods), len(m.Skipped), m.Skipped)
	}
	es := slices.DeleteFunc(clicksManifest(t), func(e synth.Entry) bool {
		return !strings.HasPrefix(e.Name, "vision_encoder.") && !strings.HasPrefix(e.Name, "tracker_")
	})
	m = modeltest.Build(t, modeltest.Open(t, es, dtype.F32), clicks3+"config.json")
	if one, ok := m.Task.(*task.Segment); !ok || !reflect.DeepEqual(*one, both.Clicks) {
		t.Errorf("without the detector the task is %+v", m.Task)
	}
}

// trackerModules has the modules of the tracker by the names of the library and of the original release, as the
// library's script that converts a checkpoint of the release pairs them. N and M stand for numbers.
const trackerModules = `
mask_decoder.iou_token sam_mask_decoder.iou_token
mask_decoder.mask_tokens sam_mask_decoder.mask_tokens
mask_decoder.obj_score_token sam_mask_decoder.obj_score_token
mask_decoder.transformer.layers.N.self_attn.o_proj sam_mask_decoder.transformer.layers.N.self_attn.out_proj
mask_decoder.transformer.layers.N.self_attn.q_proj sam_mask_decoder.transformer.layers.N.self_attn.q_proj
mask_decoder.transformer.layers.N.self_attn.k_proj sam_mask_decoder.transformer.layers.N.self_attn.k_proj
mask_decoder.transformer.layers.N.self_attn.v_proj sam_mask_decoder.transformer.layers.N.self_attn.v_proj
mask_decoder.transformer.layers.N.cross_attn_token_to_image.o_proj sam_mask_decoder.transformer.layers.N.cross_attn_token_to_image.out_proj
mask_decoder.transformer.layers.N.cross_attn_image_to_token.o_proj sam_mask_decoder.transformer.layers.N.cross_attn_image_to_token.out_proj
mask_decoder.transformer.layers.N.layer_norm1 sam_mask_decoder.transformer.layers.N.norm1
mask_decoder.transformer.layers.N.layer_norm2 sam_mask_decoder.transformer.layers.N.norm2
mask_decoder.transformer.layers.N.layer_norm3 sam_mask_decoder.transformer.layers.N.norm3
mask_decoder.transformer.layers.N.layer_norm4 sam_mask_decoder.transformer.layers.N.norm4
mask_decoder.transformer.layers.N.mlp.proj_in sam_mask_decoder.transformer.layers.N.mlp.lin1
mask_decoder.transformer.layers.N.mlp.proj_out sam_mask_decoder.transformer.layers.N.mlp.lin2
mask_decoder.transformer.final_attn_token_to_image.o_proj sam_mask_decoder.transformer.final_attn_token_to_image.out_proj
mask_decoder.transformer.layer_norm_final_attn sam_mask_decoder.transformer.norm_final_attn
mask_decoder.upscale_conv1 sam_mask_decoder.output_upscaling.0
mask_decoder.upscale_layer_norm sam_mask_decoder.output_upscaling.1
mask_decoder.upscale_conv2 sam_mask_decoder.output_upscaling.3
mask_decoder.output_hypernetworks_mlps.N.proj_in sam_mask_decoder.output_hypernetworks_mlps.N.layers.0
mask_decoder.output_hypernetworks_mlps.N.layers.0 sam_mask_decoder.output_hypernetworks_mlps.N.layers.1
mask_decoder.output_hypernetworks_mlps.N.proj_out sam_mask_decoder.output_hypernetworks_mlps.N.layers.2
mask_decoder.iou_prediction_head.proj_in sam_mask_decoder.iou_prediction_head.layers.0
mask_decoder.iou_prediction_head.layers.0 sam_mask_decoder.iou_prediction_head.layers.1
mask_decoder.iou_prediction_head.proj_out sam_mask_decoder.iou_prediction_head.layers.2
mask_decoder.pred_obj_score_head.proj_in sam_mask_decoder.pred_obj_score_head.layers.0
mask_decoder.pred_obj_score_head.layers.0 sam_mask_decoder.pred_obj_score_head.layers.1
mask_decoder.pred_obj_score_head.proj_out sam_mask_decoder.pred_obj_score_head.layers.2
mask_decoder.conv_s0 sam_mask_decoder.conv_s0
mask_decoder.conv_s1 sam_mask_decoder.conv_s1
prompt_encoder.mask_embed.conv1 sam_prompt_encoder.mask_downscaling.0
prompt_encoder.mask_embed.layer_norm1 sam_prompt_encoder.mask_downscaling.1
prompt_encoder.mask_embed.conv2 sam_prompt_encoder.mask_downscaling.3
prompt_encoder.mask_embed.layer_norm2 sam_prompt_encoder.mask_downscaling.4
prompt_encoder.mask_embed.conv3 sam_prompt_encoder.mask_downscaling.6
prompt_encoder.no_mask_embed sam_prompt_encoder.no_mask_embed
prompt_encoder.not_a_point_embed sam_prompt_encoder.not_a_point_embed
`

// originalTracker renames the tracker's tensors to the names of the original release.
func originalTracker(t *testing.T) (out []synth.Entry) {
	t.Helper()
	modules := map[string]string{}
	for line := range strings.Lines(strings.TrimSpace(trackerModules)) {
		library, release, _ := strings.Cut(strings.TrimSpace(line), " ")
		modules[library] = release
	}
	heads := map[string]string{"0.scale_layers.0": "0.dconv_2x2_0", "0.scale_layers.2": "0.dconv_2x2_1",
		"1.scale_layers.0": "1.dconv_2x2"}
	number := regexp.MustCompile(`\.(\d+)\.`)
	for _, e := range modeltest.Manifest(t, clicks3) {
		name := strings.TrimPrefix(e.Name, "tracker_model.")
		at := strings.LastIndex(name, ".")
		kind := ""
		if at > 0 {
			kind = name[at:]
		}
		switch fpn, ok := strings.CutPrefix(name, "tracker_neck.fpn_layers."); {
		case ok:
			fpn = strings.NewReplacer(".proj1.", ".conv_1x1.", ".proj2.", ".conv_3x3.").Replace(fpn)
			for from, to := range heads {
				fpn = strings.Replace(fpn, from, to, 1)
			}
			name = originalPrefixes[0] + "sam2_convs." + fpn
		case name == "no_memory_embedding":
			name = "tracker.no_mem_embed"
		case name == "shared_image_embedding.positional_embedding":
			name = "tracker.sam_prompt_encoder.pe_layer.positional_encoding_gaussian_matrix"
		case name == "prompt_encoder.point_embed.weight":
			e.Shape = []int{1, e.Shape[1]}
			for i := range 4 {
				e.Name = fmt.Sprintf("tracker.sam_prompt_encoder.point_embeddings.%d.weight", i)
				out = append(out, e)
			}
			continue
		default:
			module := name[:at]
			n := ""
			if m := number.FindStringSubmatch(module + "."); m != nil && modules[module] == "" {
				n = m[1]
				module = strings.TrimSuffix(strings.Replace(module+".", "."+n+".", ".N.", 1), ".")
			}
			release := modules[module]
			if release == "" { // the others have the same names
				release = "sam_" + module
			}
			name = "tracker." + strings.Replace(release, "N", n, 1) + kind
		}
		e.Name = name
		out = append(out, e)
	}
	return out
}

// TestOriginalTracker builds the tracker from a checkpoint with the names of the original release.
func TestOriginalTracker(t *testing.T) {
	es := append(original(t), originalTracker(t)...)
	video := []string{"tracker.maskmem_tpos_enc", "tracker.maskmem_backbone.x", "tracker.transformer.encoder.x",
		"tracker.obj_ptr_proj.x"}
	for _, n := range video {
		es = append(es, synth.Entry{Name: n, Shape: []int{2}})
	}
	m := modeltest.Build(t, modeltest.Open(t, es, dtype.F32), whole+"config.json",
		trackerPart+"mask_decoder_config.num_attention_heads=4")
	if len(m.Methods) != 7 {
		t.Errorf("%d methods; want 7, of them decode and decode_batch", len(m.Methods))
	}
	for _, n := range video {
		if !slices.ContainsFunc(m.Skipped, func(s arch.Unused) bool {
			return s.Tensor == n && s.Reason == promptable.VideoReason
		}) {
			t.Errorf("%s is not listed as unused", n)
		}
	}
	theirs := modeltest.Build(t, modeltest.Open(t, clicksManifest(t), dtype.F32), clicks3+"config.json")
	ours := func(m *arch.Model) (out []string) {
		for _, p := range m.Params {
			if strings.HasPrefix(p.Name, "tracker.") || strings.HasPrefix(p.Name, trackerNeck) {
				out = append(out, p.Name)
			}
		}
		slices.Sort(out)
		return out
	}
	if a, b := ours(m), ours(theirs); !slices.Equal(a, b) || len(a) == 0 {
		t.Errorf("params differ from those of the library's names:\n%v\n%v", a, b)
	}
}

// TestTrackerRefused checks trackers whose tensors and configuration do not fit.
func TestTrackerRefused(t *testing.T) {
	for name, c := range map[string]struct {
		without, set string
		code         error
		text         string
	}{
		"heads": {"", trackerPart + "mask_decoder_config.num_attention_heads=5", arch.ErrConfig,
			"tracker_config.mask_decoder_config.num_attention_heads is 5, which does not divide"},
		"no IoU": {"tracker_model.mask_decoder.iou_prediction_head.proj_in.w", "", arch.ErrTensor, "proj_in.weight: tensor is missing"},
		"no neck": {"tracker_neck.fpn_layers.1.proj2.w", "", arch.ErrTensor,
			"tracker_neck.fpn_layers.1.proj2.weight: tensor is missing"},
	} {
		es := slices.DeleteFunc(clicksManifest(t), func(e synth.Entry) bool {
			return c.without != "" && strings.Contains(e.Name, c.without)
		})
		var set []string
		if c.set != "" {
			set = append(set, c.set)
		}
		_, err := modeltest.TryBuild(modeltest.Open(t, es, dtype.F32), clicks3+"config.json", set...)
		if !errors.Is(err, c.code) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v; want %v with %q", name, err, c.code, c.text)
		}
	}
}
