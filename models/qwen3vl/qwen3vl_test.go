package qwen3vl

import (
	"errors"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/modeltest"
	"github.com/rlx-go/rlx/internal/synth"
	"github.com/rlx-go/rlx/internal/tensortest"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/plugins/cpu/backend"
)

const golden = "../../testdata/goldens/qwen3vl_patch/"

// TestGolden runs the patch embedding through the reference and on the cpu backend, on given rows and on those of an image.
func TestGolden(t *testing.T) {
	s := modeltest.Open(t, modeltest.Manifest(t, golden), dtype.F32)
	m := modeltest.Build(t, s, golden+"config.json")
	c := modeltest.Compile(t, m, s)
	shape := []int{24, 1536}
	for name, rows := range map[string]*tensor.Array{
		"embeddings":       tensortest.F32(shape, synth.Tensor("qwen3vl_patch.pixel_values", shape, 1.7, 0)),
		"image.embeddings": tensortest.Golden(t, golden+"golden.safetensors:image.pixel_values"),
	} {
		want, in, syms := tensortest.Golden(t, golden+"golden.safetensors:"+name), map[string]*tensor.Array{"pixel_values": rows}, map[string]int64{"N": 24}
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

// TestRecognised: a patch embedding alone is this family's; one beside a language model is not, unless the user says so.
func TestRecognised(t *testing.T) {
	es := modeltest.Manifest(t, golden)
	more := append(es[:len(es):len(es)], synth.Entry{Name: "lm_head.weight", Shape: []int{4, 4}}, synth.Entry{Name: "model.visual.blocks.0.norm1.weight", Shape: []int{4}})
	s := modeltest.Open(t, more, dtype.F32)
	if _, err := arch.Find("auto", s, "x"); !errors.Is(err, arch.ErrUnknown) {
		t.Errorf("beside a language model: %v", err)
	}
	m, err := build(s, arch.Config{})
	if err != nil || len(m.Skipped) != 2 || m.Skipped[0].Reason == "" {
		t.Errorf("unused are %v (%v); want the two others, with a reason", m, err)
	}
	wrong := append(es[:0:0], es...)
	wrong[0].Shape = []int{64, 3, 2, 16, 15}
	if _, err := modeltest.TryBuild(modeltest.Open(t, wrong, dtype.F32), ""); !errors.Is(err, arch.ErrTensor) || !strings.Contains(err.Error(), "with a square patch") {
		t.Errorf("a patch that is not square: %v", err)
	}
}
