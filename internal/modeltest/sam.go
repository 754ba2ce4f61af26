package modeltest

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/synth"
	"github.com/rlx-go/rlx/internal/tensortest"
)

// SAM is a golden case of SAM v1 or SAM 2.
type SAM struct {
	Config  string   // path of its config.json, which may not exist
	Set     []string // values as for --set that neither the tensors nor config.json determine
	Image   *tensor.Array
	Prompts []SAMPrompt

	golden string
}

// SAMPrompt is a prompt of a golden case.
type SAMPrompt struct {
	Name   string
	Points int                      // including padding and corners of boxes
	Inputs map[string]*tensor.Array // points, labels and mask; the mask is NaN without a mask prompt

	golden    string
	multimask bool    // the golden has the masks from 1 on, otherwise mask 0
	Delta     float64 // dynamic_multimask_stability_delta of the prompt; 0 for the usual one
}

// OpenSAM reads the case.json in a golden's folder. Expected values are from Transformers, and tensors have the names
// of the original code.
func OpenSAM(t testing.TB, dir string) SAM {
	t.Helper()
	s := openSAM(t, dir, "golden.safetensors", false)
	s.Set = append(s.Set, "mask_decoder_config.layer_norm_eps=1e-6")
	return s
}

// OpenOriginalSAM is OpenSAM with the expected values of the original code.
func OpenOriginalSAM(t testing.TB, dir string) SAM {
	t.Helper()
	return openSAM(t, dir, "original.safetensors", false)
}

// OpenSAM2 is OpenSAM for SAM 2, whose configuration is in config.json, and whose tensors have the names of
// Transformers. A padding point follows boxes, too.
func OpenSAM2(t testing.TB, dir string) SAM {
	t.Helper()
	s := openSAM(t, dir, "golden.safetensors", true)
	s.Set = nil
	return s
}

func openSAM(t testing.TB, dir, file string, padBoxes bool) SAM {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "case.json"))
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		Prompt struct {
			Grid int `json:"image_embedding_size"`
		}
		Decoder struct {
			Heads int `json:"num_attention_heads"`
		}
		Image   synth.Entry
		Prompts map[string]struct {
			Points    [][2]float32
			Labels    []int64
			Box       []float32
			Mask      *synth.Entry
			Multimask bool
			Delta     float64
		}
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join(dir, file) + ":"
	s := SAM{Config: filepath.Join(dir, "config.json"), golden: golden}
	s.Set = []string{fmt.Sprintf("mask_decoder_config.num_attention_heads=%d", c.Decoder.Heads)}
	s.Image = tensortest.F32(c.Image.Shape, synth.Tensor(c.Image.Name, c.Image.Shape, c.Image.Scale, c.Image.Shift))
	for _, name := range slices.Sorted(maps.Keys(c.Prompts)) {
		p := c.Prompts[name]
		var points []float32
		for _, x := range p.Points {
			points = append(points, x[:]...)
		}
		labels := slices.Clone(p.Labels)
		if p.Box != nil {
			points, labels = append(points, p.Box...), append(labels, 2, 3)
		}
		if p.Box == nil || padBoxes {
			points, labels = append(points, 0, 0), append(labels, -1)
		}
		n, side := len(labels), 4*c.Prompt.Grid
		mask := tensor.NewArray(dtype.F32, 1, 1, side, side)
		for i := range mask.Floats {
			mask.Floats[i] = math.NaN()
		}
		if m := p.Mask; m != nil {
			mask = tensortest.F32(m.Shape, synth.Tensor(m.Name, m.Shape, m.Scale, m.Shift))
		}
		q := SAMPrompt{Name: name, Points: n, golden: golden + name + ".", multimask: p.Multimask, Delta: p.Delta,
			Inputs: map[string]*tensor.Array{
				"points": tensortest.F32([]int{1, n, 2}, points),
				"labels": {DType: dtype.I32, Shape: []int{1, n}, Ints: labels}, "mask": mask,
			}}
		s.Prompts = append(s.Prompts, q)
	}
	return s
}

// Embeddings returns the expected embeddings of the image.
func (s SAM) Embeddings(t testing.TB) *tensor.Array {
	t.Helper()
	return tensortest.Golden(t, s.golden+"image_embeddings")
}

// Features returns what a SAM 2 is expected to make of the image: the inputs of decode besides the prompt.
func (s SAM) Features(t testing.TB) map[string]*tensor.Array {
	t.Helper()
	return map[string]*tensor.Array{"embeddings": tensortest.Golden(t, s.golden+"embeddings"),
		"features0": s.ChannelsLast(t, "features0"), "features1": s.ChannelsLast(t, "features1")}
}

// ChannelsLast returns an expected result [1,C,h,w] as [1,h,w,C].
func (s SAM) ChannelsLast(t testing.TB, name string) *tensor.Array {
	t.Helper()
	x := tensortest.Golden(t, s.golden+name)
	c, h, w := x.Shape[1], x.Shape[2], x.Shape[3]
	out := tensor.NewArray(x.DType, 1, h, w, c)
	for i := range out.Floats {
		out.Floats[i] = x.Floats[i%c*h*w+i/c]
	}
	return out
}

// With returns the inputs of decode.
func (p SAMPrompt) With(embeddings *tensor.Array) map[string]*tensor.Array {
	in := maps.Clone(p.Inputs)
	in["embeddings"] = embeddings
	return in
}

// Check compares the results of decode with the golden.
func (p SAMPrompt) Check(t testing.TB, out map[string]*tensor.Array, tol float64) {
	t.Helper()
	for _, name := range []string{"low_res_masks", "iou"} {
		x := out[name]
		per, first, last := x.Len()/x.Shape[1], 0, 1
		if p.multimask {
			first, last = 1, x.Shape[1]
		}
		cut := &tensor.Array{DType: x.DType, Shape: append([]int{1, last - first}, x.Shape[2:]...),
			Floats: x.Floats[first*per : last*per]}
		tensortest.Near(t, p.Name+" "+name, cut, tensortest.Golden(t, p.golden+name), tol)
	}
}
