package sam

import (
	"path/filepath"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/synth"
	"github.com/rlx-go/rlx/internal/tensortest"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/weights"
)

const tiny = "../../testdata/goldens/sam_tiny/"

// openTiny synthesises the tiny checkpoint and builds the model, with the rename applied to every tensor name.
func openTiny(t *testing.T, rename func(string) string) (*arch.Model, weights.Stored) {
	t.Helper()
	es, err := synth.ReadManifest(tiny + "manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if err := synth.Write(path, es, dtype.F32); err != nil {
		t.Fatal(err)
	}
	c, err := weights.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	s := weights.Stored{Checkpoint: c}
	var cfg arch.Config
	if err := cfg.Set("mask_decoder_config.num_attention_heads=2", keys); err != nil {
		t.Fatal(err)
	}
	m, err := build(renamed{s, rename}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m, s
}

// renamed shows a checkpoint under other names.
type renamed struct {
	weights.Stored
	rename func(string) string
}

func (r renamed) Names() []string {
	var out []string
	for _, n := range r.Stored.Names() {
		out = append(out, r.rename(n))
	}
	return out
}

func (r renamed) Type(name string) (ir.Type, bool) {
	for _, n := range r.Stored.Names() {
		if r.rename(n) == name {
			return r.Stored.Type(n)
		}
	}
	return ir.Type{}, false
}

// TestGolden runs the graphs as they are built, through the reference, against numbers made by another implementation.
func TestGolden(t *testing.T) {
	m, s := openTiny(t, func(n string) string { return n })
	params := func(name string) (*tensor.Array, error) {
		typ, _ := s.Type(name)
		b, err := s.Bytes(name, dtype.F32)
		return tensor.Tensor{DType: dtype.F32, Shape: typ.Shape.Eval(nil), Data: b}.Array(), err
	}
	golden := tiny + "golden.safetensors:"
	image := tensortest.Golden(t, golden+"image")
	out, err := interp.Run(m.Methods[0], nil, map[string]*tensor.Array{"image": image}, params)
	if err != nil {
		t.Fatal(err)
	}
	embeddings := tensortest.Golden(t, golden+"image_embeddings")
	tensortest.Near(t, "image_embeddings", out["embeddings"], embeddings, 1e-5)

	for _, c := range []struct {
		name   string
		points []float32
		labels []int64
		masks  [2]int // tokens that the golden holds
	}{
		{"point", []float32{38.4, 76.8, 0, 0}, []int64{1, -1}, [2]int{1, 4}},
		{"two_points", []float32{38.4, 76.8, 89.6, 25.6, 0, 0}, []int64{1, 0, -1}, [2]int{0, 1}},
		{"box", []float32{25.6, 32, 102.4, 96}, []int64{2, 3}, [2]int{1, 4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := len(c.labels)
			out, err := interp.Run(m.Methods[1], map[string]int64{"N": int64(n)}, map[string]*tensor.Array{
				"embeddings": embeddings,
				"points":     tensortest.F32([]int{1, n, 2}, c.points),
				"labels":     {DType: dtype.I32, Shape: []int{1, n}, I: c.labels},
			}, params)
			if err != nil {
				t.Fatal(err)
			}
			tensortest.Near(t, "low_res_masks", channels(out["low_res_masks"], c.masks), tensortest.Golden(t, golden+c.name+".low_res_masks"), 2e-5)
			tensortest.Near(t, "iou", channels(out["iou"], c.masks), tensortest.Golden(t, golden+c.name+".iou"), 2e-5)
		})
	}
}

// channels cuts [1, M, ...] to the given range of M.
func channels(a *tensor.Array, r [2]int) *tensor.Array {
	per := a.Len() / a.Shape[1]
	shape := append([]int{1, r[1] - r[0]}, a.Shape[2:]...)
	return &tensor.Array{DType: a.DType, Shape: shape, F: a.F[r[0]*per : r[1]*per]}
}

// TestTransformersNames builds the same graphs from a checkpoint in the names of the Transformers library.
func TestTransformersNames(t *testing.T) {
	original, _ := openTiny(t, func(n string) string { return n })
	other, _ := openTiny(t, func(n string) string { return transformersName(n)[0] })
	for i, g := range original.Methods {
		if other.Methods[i].String() != g.String() {
			t.Errorf("%s differs between names", g.Name)
		}
	}
	if len(other.Params) != len(original.Params) {
		t.Errorf("%d params, want %d", len(other.Params), len(original.Params))
	}
}
