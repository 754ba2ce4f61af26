package qwen3vl

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/modeltest"
	"github.com/rlx-go/rlx/internal/synth"
	"github.com/rlx-go/rlx/internal/tensortest"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/plugins/cpu/backend"
	"github.com/rlx-go/rlx/task"
)

const golden = "../../testdata/goldens/qwen3vl_patch/"

// TestGolden runs the patch embedding on the reference and on the cpu backend, with given rows and with those of an
// image.
func TestGolden(t *testing.T) {
	s := modeltest.Open(t, modeltest.Manifest(t, golden), dtype.F32)
	m := modeltest.Build(t, s, golden+"config.json")
	c := modeltest.Compile(t, m, s)
	shape := []int{24, 1536}
	for name, rows := range map[string]*tensor.Array{
		"embeddings":       tensortest.F32(shape, synth.Tensor("qwen3vl_patch.pixel_values", shape, 1.7, 0)),
		"image.embeddings": tensortest.Golden(t, golden+"golden.safetensors:image.pixel_values"),
	} {
		want, in, syms := tensortest.Golden(t, golden+"golden.safetensors:"+name),
			map[string]*tensor.Array{"pixel_values": rows}, map[string]int64{"N": 24}
		param := func(name string) (*tensor.Array, error) { return modeltest.Param(s, "model.visual."+name) }
		out, err := interp.Run(m.Methods[0], syms, in, param)
		if err != nil {
			t.Fatal(err)
		}
		tensortest.Near(t, name, out["embeddings"], want, 1e-5)
		for _, target := range modeltest.Targets() {
			p := c.Find(t, "patch_embed", target.Name)
			x, err := backend.Backend{}.Load(t.Context(), device.Load{Program: p, Weights: c.Weights, Threads: 2})
			if err != nil {
				t.Fatal(err)
			}
			tensortest.Near(t, name+" on "+target.Name, devicetest.Once(t, x, p, syms, in)["embeddings"], want, 1e-5)
			x.Close()
		}
	}
}

// TestImage embeds the pixels of an image on the reference and on the cpu backend. It compares the result with the
// embeddings of the rows that the published processor makes from the image. It also checks that the kernels of the
// frames are added once, when the model is compiled.
func TestImage(t *testing.T) {
	s := modeltest.Open(t, modeltest.Manifest(t, golden), dtype.F32)
	m := modeltest.Build(t, s, golden+"config.json")
	u8 := tensortest.Golden(t, golden+"golden.safetensors:image.u8") // [3,64,96]
	image := tensor.NewArray(dtype.F32, 64, 96, 3)
	for i := range image.Floats {
		image.Floats[i] = float64(u8.Ints[i%3*64*96+i/3])
	}
	want := tensortest.Golden(t, golden+"golden.safetensors:image.embeddings")
	in, syms := map[string]*tensor.Array{"image": image}, map[string]int64{"R": 2, "C": 3}
	out, err := interp.Run(m.Methods[1], syms, in,
		func(name string) (*tensor.Array, error) { return modeltest.Param(s, "model.visual."+name) })
	if err != nil {
		t.Fatal(err)
	}
	tensortest.Near(t, "on the reference", out["embeddings"], want, 1e-5)
	c := modeltest.Compile(t, m, s)
	for _, target := range modeltest.Targets() {
		p := c.Find(t, "embed_image", target.Name)
		for _, n := range p.Graph.Nodes {
			if n.Is(op.ReduceSumDef) {
				t.Errorf("%s: %v adds kernels in each run", target.Name, n)
			}
		}
		x, err := backend.Backend{}.Load(t.Context(), device.Load{Program: p, Weights: c.Weights, Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		tensortest.Near(t, "on "+target.Name, devicetest.Once(t, x, p, syms, in)["embeddings"], want, 1e-5)
		x.Close()
	}
}

// TestTask checks that the task has the settings of the image processor, and that bad ones are refused.
func TestTask(t *testing.T) {
	s := modeltest.Open(t, modeltest.Manifest(t, golden), dtype.F32)
	var cfg arch.Config
	if err := cfg.Load(golden + "config.json"); err != nil {
		t.Fatal(err)
	}
	file := `{"size": {"shortest_edge": 1024, "longest_edge": 65536}, "patch_size": 16, "temporal_patch_size": 2, "merge_size": 2, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}`
	cfg.Files = func(name string, _ int64) ([]byte, error) {
		if name != processor {
			return nil, fs.ErrNotExist
		}
		return []byte(file), nil
	}
	m, err := build(s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	// the test of package patches compares rows of this task with the published processor
	half := [3]float64{0.5, 0.5, 0.5}
	want := task.Patches{Method: "patch_embed", PixelsInput: "pixel_values", Embeddings: "embeddings", Patch: 16,
		Frames: 2, Merge: 2, ImageMethod: "embed_image", ImageInput: "image", MaxSide: 128,
		MinPixels: 1024, MaxPixels: 65536, MaxPatches: maxPatches, Mean: half, Std: half}
	if got := *m.Task.(*task.Patches); got != want {
		t.Errorf("%+v; want %+v", got, want)
	}
	for text, c := range map[string]string{
		"merge_size":            "merge_size\": 3, \"x",
		"image_mean has 2":      "image_mean\": [1, 2], \"x",
		"min_pixels is 100000":  "shortest_edge\": 100000, \"x",
		"min_pixels is 70000":   "patch_size\": 16, \"min_pixels\": 70000, \"x",
		"do_normalize is false": "patch_size\": 16, \"do_normalize\": false, \"x",
		"resample is 2":         "patch_size\": 16, \"resample\": 2, \"x",
		"rescale_factor is 1":   "patch_size\": 16, \"rescale_factor\": 1, \"x",
	} {
		key, _, _ := strings.Cut(c, "\"")
		whole := file
		file = strings.Replace(file, key, c, 1)
		if _, err := build(s, cfg); !errors.Is(err, arch.ErrConfig) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", c, err)
		}
		file = whole
	}
}

// TestRecognised checks that a patch embedding alone is recognised, and one beside a language model only if the user
// chooses the family.
func TestRecognised(t *testing.T) {
	es := modeltest.Manifest(t, golden)
	more := append(es[:len(es):len(es)], synth.Entry{Name: "lm_head.weight", Shape: []int{4, 4}},
		synth.Entry{Name: "model.visual.blocks.0.norm1.weight", Shape: []int{4}})
	s := modeltest.Open(t, more, dtype.F32)
	if _, err := arch.Find("auto", s, "x", ""); !errors.Is(err, arch.ErrUnknown) {
		t.Errorf("beside a language model: %v", err)
	}
	m, err := build(s, arch.Config{})
	if err != nil || len(m.Skipped) != 2 || m.Skipped[0].Reason == "" {
		t.Errorf("unused are %v (%v); want the two others, with a reason", m, err)
	}
	wrong := append(es[:0:0], es...)
	wrong[0].Shape = []int{64, 3, 2, 16, 15}
	if _, err := modeltest.TryBuild(modeltest.Open(t, wrong, dtype.F32), ""); !errors.Is(err, arch.ErrTensor) ||
		!strings.Contains(err.Error(), "with a square patch") {
		t.Errorf("a patch that is not square: %v", err)
	}
}
