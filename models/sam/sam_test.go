package sam

import (
	"fmt"
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

const goldens = "../../testdata/goldens/"

// open synthesises the checkpoint of a golden case and builds the model, with the rename applied to every tensor name.
func open(t *testing.T, name string, decoderHeads int, rename func(string) string) (*arch.Model, weights.Stored) {
	t.Helper()
	es, err := synth.ReadManifest(goldens + name + "/manifest.json")
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
	if err := cfg.Set(fmt.Sprintf("%s=%d", keyDecoderHeads, decoderHeads), keys); err != nil {
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

// unchanged names a checkpoint's tensors as they are.
func unchanged(name string) string { return name }

// prompt is one of a golden case: points [n,2] in pixels, with the padding point that the reference appends, and the range of mask tokens
// whose results the golden holds.
type prompt struct {
	name   string
	points []float32
	labels []int64
	masks  [2]int
}

// TestGolden runs the graphs as they are built, through the reference, against numbers made by another implementation.
func TestGolden(t *testing.T) {
	for _, c := range []struct {
		name         string
		size         int
		decoderHeads int
		prompts      []prompt
	}{
		{"sam_tiny", 128, 2, []prompt{
			{"point", []float32{38.4, 76.8, 0, 0}, []int64{1, -1}, [2]int{1, 4}},
			{"two_points", []float32{38.4, 76.8, 89.6, 25.6, 0, 0}, []int64{1, 0, -1}, [2]int{0, 1}},
			{"box", []float32{25.6, 32, 102.4, 96}, []int64{2, 3}, [2]int{1, 4}},
		}},
		{"sam_iou_head", 96, 4, []prompt{
			{"point", []float32{28.8, 57.6, 0, 0}, []int64{1, -1}, [2]int{1, 4}},
			{"two_points", []float32{28.8, 57.6, 67.2, 19.2, 0, 0}, []int64{1, 0, -1}, [2]int{0, 1}},
			{"box", []float32{19.2, 24, 76.8, 72}, []int64{2, 3}, [2]int{1, 4}},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, s := open(t, c.name, c.decoderHeads, unchanged)
			params := func(name string) (*tensor.Array, error) {
				typ, _ := s.Type(name)
				b, err := s.Bytes(name, dtype.F32)
				return tensor.Tensor{DType: dtype.F32, Shape: typ.Shape.Eval(nil), Data: b}.Array(), err
			}
			golden := goldens + c.name + "/golden.safetensors:"
			shape := []int{1, 3, c.size, c.size}
			image := tensortest.F32(shape, synth.Tensor(c.name+".image", shape, 2, 0))
			out, err := interp.Run(m.Methods[0], nil, map[string]*tensor.Array{"image": image}, params)
			if err != nil {
				t.Fatal(err)
			}
			embeddings := tensortest.Golden(t, golden+"image_embeddings")
			tensortest.Near(t, "image_embeddings", out["embeddings"], embeddings, 1e-5)
			for _, p := range c.prompts {
				n := len(p.labels)
				out, err := interp.Run(m.Methods[1], map[string]int64{"N": int64(n)}, map[string]*tensor.Array{
					"embeddings": embeddings,
					"points":     tensortest.F32([]int{1, n, 2}, p.points),
					"labels":     {DType: dtype.I32, Shape: []int{1, n}, I: p.labels},
				}, params)
				if err != nil {
					t.Fatal(err)
				}
				tensortest.Near(t, p.name+" masks", channels(out["low_res_masks"], p.masks), tensortest.Golden(t, golden+p.name+".low_res_masks"), 2e-5)
				tensortest.Near(t, p.name+" iou", channels(out["iou"], p.masks), tensortest.Golden(t, golden+p.name+".iou"), 2e-5)
			}
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
	original, _ := open(t, "sam_tiny", 2, unchanged)
	other, _ := open(t, "sam_tiny", 2, func(n string) string { return transformersName(n)[0] })
	for i, g := range original.Methods {
		if other.Methods[i].String() != g.String() {
			t.Errorf("%s differs between names", g.Name)
		}
	}
	if len(other.Params) != len(original.Params) {
		t.Errorf("%d params, want %d", len(other.Params), len(original.Params))
	}
}
