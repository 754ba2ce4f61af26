package llm

import (
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/modeltest"
	"github.com/rlx-go/rlx/internal/synth"
	"github.com/rlx-go/rlx/internal/tensortest"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/plugins/cpu/backend"
)

const vl = goldens + "qwen3vl_tiny/"

// TestVision compares the features of an image, and those that the first layers of the language model add, with
// Transformers', on the reference and on the cpu backend.
func TestVision(t *testing.T) {
	s := modeltest.Open(t, modeltest.Manifest(t, vl), dtype.F32)
	m := modeltest.Build(t, s, vl+"config.json")
	golden := func(name string) *tensor.Array { return tensortest.Golden(t, vl+"golden.safetensors:wide."+name) }
	rows, grid := golden("pixel_values"), golden("grid")
	n := rows.Shape[0]
	patches := tensor.NewArray(dtype.F32, n, 48)
	for i := range patches.Floats { // a row of the golden has both frames of each channel
		patches.Floats[i] = rows.Floats[i/16*32+i%16]
	}
	sides := tensor.NewArray(dtype.I32, 2)
	copy(sides.Ints, grid.Ints[1:])
	in, syms := map[string]*tensor.Array{"patches": patches, "grid": sides}, map[string]int64{"N": int64(n / 4)}
	want := tensor.NewArray(dtype.F32, n/4, 120)
	for i, name := range []string{"features", "deepstack.0", "deepstack.1"} {
		for j, v := range golden(name).Floats {
			want.Floats[j/40*120+40*i+j%40] = v
		}
	}
	g := m.Methods[slices.IndexFunc(m.Methods, func(g *ir.Graph) bool { return g.Name == "embed_image" })]
	source := map[string]string{}
	for _, p := range m.Params {
		source[p.Name] = p.Source
	}
	out, err := interp.Run(g, syms, in,
		func(name string) (*tensor.Array, error) { return modeltest.Param(s, source[name]) })
	if err != nil {
		t.Fatal(err)
	}
	tensortest.Near(t, "reference", out["features"], want, 1e-6)
	c := modeltest.Compile(t, m, s)
	for _, target := range modeltest.Targets() {
		p := c.Find(t, "embed_image", target.Name)
		x, err := backend.Backend{}.Load(t.Context(), device.Load{Program: p, Weights: c.Weights, Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		tensortest.Near(t, target.Name, devicetest.Once(t, x, p, syms, in)["features"], want, 1e-5)
		x.Close()
	}
}

// TestVisionConfig checks that configurations that do not fit the tensors, or that the graphs do not implement, are
// refused, and that a checkpoint without an encoder is a model for text.
func TestVisionConfig(t *testing.T) {
	all := modeltest.Manifest(t, vl)
	raw, err := os.ReadFile(vl + "config.json")
	if err != nil {
		t.Fatal(err)
	}
	build := func(es []synth.Entry, old, new string, set ...string) (*arch.Model, error) {
		path := t.TempDir() + "/config.json"
		if err := os.WriteFile(path, []byte(strings.Replace(string(raw), old, new, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		return modeltest.TryBuild(modeltest.Open(t, es, dtype.F32), path, set...)
	}
	for name, c := range map[string]struct{ old, new, set, text string }{
		"mixture of experts": {`"qwen3_vl_text"`, `"qwen3_vl_moe_text"`, "", "qwen3_vl_moe_text"},
		"heads":              {`"num_heads": 2`, `"num_heads": 5`, "", "vision_config.num_heads is 5"},
		"depth":              {`"depth": 4`, `"depth": 5`, "", "depth"},
		"merge":              {`"spatial_merge_size": 2`, `"spatial_merge_size": 3`, "", "spatial_merge_size"},
		"mergers":            {"   0,\n   2\n", "   0\n", "", "those of 2 different layers"},
		"layer twice":        {"   0,\n   2\n", "   2,\n   2\n", "", "those of 2 different layers"},
		"layer":              {"   0,\n   2\n", "   2,\n   4\n", "", "deepstack_visual_indexes"},
		"activation":         {`"gelu_pytorch_tanh"`, `"relu"`, "", `hidden_act is "relu"`},
		"image token":        {`"image_token_id": 261`, `"image_token_id": 263`, "", "image_token_id is 263"},
		"sections":           {"    3,\n    3,\n    2\n", "    3,\n    3\n", "", "mrope_section has 2 numbers"},
		"not interleaved":    {`"mrope_interleaved": true`, `"mrope_interleaved": false`, "", "interleaved"},
		"dynamic":            {`"rope_type": "default"`, `"rope_type": "dynamic", "factor": 2`, "", "depend on the length"},
		"area":               {"", "", "max_pixels=10", "max_pixels is 10"},
	} {
		var set []string
		if c.set != "" {
			set = append(set, c.set)
		}
		if _, err := build(all, c.old, c.new, set...); !errors.Is(err, arch.ErrConfig) ||
			!strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	text := slices.DeleteFunc(slices.Clone(all), func(e synth.Entry) bool { return strings.Contains(e.Name, "visual") })
	m, err := build(text, "", "")
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(m.Methods, func(g *ir.Graph) bool { return g.Name == "embed_image" }) {
		t.Error("a checkpoint without an encoder takes images")
	}
	for name, drop := range map[string]string{
		"no positions": "model.visual.pos_embed.weight", "no merger": "model.visual.merger.linear_fc2.weight",
		"no layer": "model.visual.blocks.2.norm1.weight",
	} {
		es := slices.DeleteFunc(slices.Clone(all), func(e synth.Entry) bool { return e.Name == drop })
		if _, err := build(es, "", ""); !errors.Is(err, arch.ErrTensor) && !errors.Is(err, arch.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The whole model's key counts: the last layer is then a tensor of its own.
	m, err = build(all, `"vocab_size"`, `"tie_word_embeddings": true, "vocab_size"`)
	if err != nil || !slices.ContainsFunc(m.Params, func(p arch.Param) bool { return p.Name == "lm_head.weight" }) {
		t.Errorf("tied by text_config alone: %v", err)
	}
	facts := map[string]bool{}
	m, err = build(all, "", "", "max_pixels=20000")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range m.Facts {
		facts[f.Value] = true
	}
	if want := "4 layers of width 32, patches of 4 px, up to 312 tokens"; !facts[want] {
		t.Errorf("facts %v; want %q", slices.Sorted(maps.Keys(facts)), want)
	}
}
