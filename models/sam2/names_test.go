package sam2

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/internal/modeltest"
	"github.com/rlx-go/rlx/internal/synth"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/promptable"
	"github.com/rlx-go/rlx/task"
)

// Keys of promptable.SAM2Keys.
const (
	keyMaskAct   = promptKey + "hidden_act"
	keyMaskEps   = promptKey + "layer_norm_eps"
	keyDecHeads  = "mask_decoder_config.num_attention_heads"
	keyDynamic   = "mask_decoder_config.dynamic_multimask_via_stability"
	keyDelta     = "mask_decoder_config.dynamic_multimask_stability_delta"
	keyThreshold = "mask_decoder_config.dynamic_multimask_stability_thresh"
)

// original returns the manifest of a golden case with the names of the original release. The table of points becomes
// four tensors.
func original(t *testing.T, name string) (out []synth.Entry) {
	t.Helper()
	s, c := open(t, name)
	theirs := map[string]string{} // name in Transformers -> our name
	for _, p := range modeltest.Build(t, s, c.Config).Params {
		theirs[p.Source] = p.Name
	}
	for _, e := range modeltest.Manifest(t, goldens+name) {
		names := arch.Parts(promptable.OriginalName(theirs[e.Name])[0])
		if len(names) > 1 { // points
			e.Shape = append([]int{1}, e.Shape[1:]...)
		}
		for _, n := range names {
			e.Name = n
			out = append(out, e)
		}
	}
	return out
}

// video lists tensors of the memory, as in the published checkpoints of either release.
var video = []synth.Entry{{Name: "memory_attention.layers.0.norm1.weight", Shape: []int{16}},
	{Name: "memory_encoder.feature_projection.weight", Shape: []int{16}}, {Name: "no_obj_ptr", Shape: []int{1, 16}},
	{Name: "occlusion_spatial_embedding_parameter", Shape: []int{1, 16}}}

// TestOriginalNames builds the same graphs from the names of the original release, also of a checkpoint with the memory
// of video.
func TestOriginalNames(t *testing.T) {
	s, c := open(t, "sam2_tiny")
	want := modeltest.Build(t, s, c.Config)
	es := original(t, "sam2_tiny")
	got := modeltest.Build(t, modeltest.Open(t, append(es, video...), dtype.F32), c.Config)
	for i, g := range want.Methods {
		if got.Methods[i].String() != g.String() {
			t.Errorf("%s differs between names", g.Name)
		}
	}
	if len(got.Skipped) != len(video) || got.Skipped[0].Reason != promptable.VideoReason {
		t.Errorf("unused are %v; want the memory", got.Skipped)
	}
}

// TestVideoModel checks that the model type of published checkpoints is known, and that older names and a copy of the
// positions are.
func TestVideoModel(t *testing.T) {
	es := modeltest.Manifest(t, goldens+"sam2_tiny")
	for i := range es {
		es[i].Name = strings.ReplaceAll(es[i].Name, ".o_proj.", ".out_proj.")
		if es[i].Name == "shared_image_embedding.positional_embedding" {
			es = append(es, es[i])
			es[len(es)-1].Name = "prompt_encoder.shared_embedding.positional_embedding"
		}
	}
	_, c := open(t, "sam2_tiny")
	raw, err := os.ReadFile(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "config.json")
	text := strings.Replace(string(raw), `"sam2"`, `"sam2_video"`, 1)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	m := modeltest.Build(t, modeltest.Open(t, append(es, video...), dtype.F32), path)
	if len(m.Skipped) != len(video)+1 {
		t.Errorf("unused are %v; want the memory and a copy of the positions", m.Skipped)
	}
}

// TestSkipped checks that the tensors of a stage that the decoder does not need are listed.
func TestSkipped(t *testing.T) {
	s, c := open(t, "sam2_odd")
	m := modeltest.Build(t, s, c.Config)
	for _, x := range m.Skipped {
		if !strings.Contains(x.Reason, "does not use") {
			t.Errorf("%v", x)
		}
	}
	if len(m.Skipped) != 28 {
		t.Errorf("%d tensors are unused; want those of 2 blocks, with a projection, and a convolution", len(m.Skipped))
	}
}

// TestTask checks the description of what the model takes.
func TestTask(t *testing.T) {
	s, c := open(t, "sam2_odd")
	got := modeltest.Build(t, s, c.Config).Task.(*task.Segment)
	if got.Size != 112 || got.Tokens != 3 || got.BestFirst != 1 || got.BestLast != 2 || got.MaskSide != 28 ||
		got.Resize != task.ResizeStretch || !got.PadBoxes ||
		!slices.Equal(got.Features, []string{"features0", "features1"}) {
		t.Errorf("%+v", got)
	}
}

// TestRefused checks checkpoints and configurations that are incomplete or contradict themselves.
func TestRefused(t *testing.T) {
	without := func(text string) func(es []synth.Entry) []synth.Entry {
		return func(es []synth.Entry) []synth.Entry {
			return slices.DeleteFunc(es, func(e synth.Entry) bool { return strings.Contains(e.Name, text) })
		}
	}
	for name, c := range map[string]struct {
		edit func([]synth.Entry) []synth.Entry
		set  []string
		code error
		text string
	}{
		"no object score": {without("obj_score_token"), nil, arch.ErrUnknown, "sam2"},
		"no head of it": {without("pred_obj_score_head"), nil, arch.ErrTensor,
			"pred_obj_score_head.proj_in.weight: tensor is missing"},
		"no conv_s1":      {without("conv_s1"), nil, arch.ErrTensor, "conv_s1.weight: tensor is missing"},
		"no mask prompts": {without("mask_embed"), nil, arch.ErrTensor, "mask_embed.conv1.weight: tensor is missing"},
		"an alien": {func(es []synth.Entry) []synth.Entry {
			return append(es, synth.Entry{Name: "other.weight", Shape: []int{1}})
		}, nil, arch.ErrTensor, "is not part of the model"},
		"stages":          {nil, []string{keyHeads + "=[1,2,3]"}, arch.ErrConfig, "want a number for each of 4 stages"},
		"heads":           {nil, []string{keyHeads + "=[3,2,3,4]"}, arch.ErrConfig, "3 heads do not divide the width"},
		"decoder's heads": {nil, []string{keyDecHeads + "=3"}, arch.ErrConfig, "does not divide the decoder's widths"},
		"first window":    {nil, []string{keyWindows + "=[4,5,6,3]"}, arch.ErrConfig, "says 8 for the first stage"},
		"window of a pool": {nil, []string{keyWindows + "=[8,7,3,3]"}, arch.ErrConfig,
			"windows of 3, which cannot be halved with the 8 tokens"},
		"global":     {nil, []string{keyGlobal + "=[6]"}, arch.ErrConfig, "names block 6; there are 0 to 5"},
		"image":      {nil, []string{keyImageSize + "=136"}, arch.ErrConfig, "want a multiple of the window, 8"},
		"patch size": {nil, []string{keyPatchSize + "=8"}, arch.ErrConfig, "want 64 with 8 pixels"},
		"axes":       {nil, []string{keyStride + "=[4,2]"}, arch.ErrConfig, "want one number for both axes"},
		"pool":       {nil, []string{keyPool + "=4"}, arch.ErrConfig, "want 2"},
		"act":        {nil, []string{keyAct + `="x"`}, arch.ErrConfig, "want one of"},
	} {
		es := modeltest.Manifest(t, goldens+"sam2_tiny")
		if c.edit != nil {
			es = c.edit(es)
		}
		_, err := modeltest.TryBuild(modeltest.Open(t, es, dtype.F32), goldens+"sam2_tiny/config.json", c.set...)
		if !errors.Is(err, c.code) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v; want %v with %q", name, err, c.code, c.text)
		}
	}
	s := modeltest.Open(t, modeltest.Manifest(t, goldens+"sam2_tiny"), dtype.F32)
	if _, err := modeltest.TryBuild(s, ""); !errors.Is(err, arch.ErrConfig) ||
		!strings.Contains(err.Error(), keyHeads+" is not given, and this is no published size: width 8, 6 blocks") {
		t.Errorf("without a configuration: %v", err)
	}
}

// TestTopDown checks that levels of sides that do not fit are not added.
func TestTopDown(t *testing.T) {
	s, c := open(t, "sam2_odd")
	if _, err := modeltest.TryBuild(s, c.Config, keyTopDown+"=[2]"); !errors.Is(err, arch.ErrConfig) ||
		!strings.Contains(err.Error(), "adds level 3, with 3 tokens on a side, to level 2, with 7") {
		t.Errorf("%v", err)
	}
}

// TestWrongTypes gives every key of the configuration values of wrong types and out of range.
func TestWrongTypes(t *testing.T) {
	const size, word, number = modeltest.Size, modeltest.Word, modeltest.Number
	kinds := map[string]modeltest.Kind{keyMaskAct: word, keyMaskEps: number, keyHeads: modeltest.Ints,
		keyWindows: modeltest.Ints, keyGlobal: modeltest.Ints, keyAct: word, keyEps: number, keyTopDown: modeltest.Ints,
		keyLevels: size, keyDecHeads: size, keyDynamic: modeltest.Bool, keyDelta: number, keyThreshold: number,
	}
	for _, k := range []string{keyImageSize, keyPatchSize, keyStride, keyPool, keyPadding, keyPools} {
		kinds[k] = modeltest.Ints // one number may be given for each axis
	}
	stored, _ := open(t, "sam2_tiny")
	modeltest.CheckTypes(t, keys, modeltest.TypedConfig{Name: "sam2", Stored: stored,
		Config: goldens + "sam2_tiny/config.json", Keys: kinds})
}
