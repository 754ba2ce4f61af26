package sam3

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/modeltest"
	"github.com/rlx-go/rlx/internal/synth"
	"github.com/rlx-go/rlx/internal/tensortest"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/plugins/cpu/backend"
)

const whole = "../../testdata/goldens/sam3_tiny/"

// TestDetector runs a whole SAM 3 of odd sizes as compiled for every target, each method on the results of those
// before it.
func TestDetector(t *testing.T) {
	s := modeltest.Open(t, modeltest.Manifest(t, whole), dtype.F32)
	c := modeltest.Compile(t, modeltest.Build(t, s, whole+"config.json"), s)
	for _, target := range modeltest.Targets() {
		runDetector(t, c, target.Name)
	}
}

// runDetector compares the results of the methods of one target with the golden.
func runDetector(t *testing.T, c modeltest.Compiled, target string) {
	t.Helper()
	golden := func(name string) *tensor.Array {
		return tensortest.Golden(t, whole+"golden.safetensors:"+name)
	}
	run := func(method string, syms map[string]int64, in map[string]*tensor.Array) map[string]*tensor.Array {
		p := c.Find(t, method, target)
		x, err := backend.Backend{}.Load(t.Context(), device.Load{Program: p, Weights: c.Weights, Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		return devicetest.Once(t, x, p, syms, in)
	}
	shape := []int{1, 3, 112, 112}
	vision := run("encode", nil, map[string]*tensor.Array{
		"image": tensortest.F32(shape, synth.Tensor("sam3_tiny.image", shape, 1.7, 0))})
	in := map[string]*tensor.Array{}
	for _, name := range []string{"level0.features", "level1.features", "level2.features"} {
		in[name] = vision[name]
	}
	n := map[string]int64{"N": 5}
	in["text"] = run("encode_text", n, map[string]*tensor.Array{"ids": golden("ids")})["text"]
	tensortest.Near(t, target+" text", in["text"], golden("text"), 1e-5)
	results := func(prompt string, out map[string]*tensor.Array) {
		if len(out) != 6 {
			t.Errorf("%s: %d results; want memory, boxes, logits, presence, masks and semantic", prompt, len(out))
		}
		for name, x := range out {
			tensortest.Near(t, target+" "+prompt+"."+name, x, golden(prompt+"."+name), 2e-5)
		}
	}
	results("text", run("detect", n, in))
	in["boxes"], in["labels"] = golden("box_prompts"), golden("box_labels")
	results("boxes", run("detect_boxes", map[string]int64{"N": 5, "M": 2}, in))
}

// TestWholeCheckpoint builds the same methods from a checkpoint of the video model, whose other tensors are listed.
func TestWholeCheckpoint(t *testing.T) {
	es := modeltest.Manifest(t, whole)
	for i := range es {
		es[i].Name = "detector_model." + es[i].Name
	}
	others := []string{"tracker_model.w", "tracker_neck.w", "detector_model.text_encoder.text_model.embeddings.position_ids"}
	for _, n := range others {
		es = append(es, synth.Entry{Name: n, Shape: []int{2}})
	}
	m := modeltest.Build(t, modeltest.Open(t, es, dtype.F32), whole+"config.json")
	if len(m.Methods) != 5 {
		t.Errorf("%d methods; want neck, encode, encode_text, detect and detect_boxes", len(m.Methods))
	}
	if want := len(others) + 5; len(m.Skipped) != want { // and CLIP's projection, the stage with four tensors
		t.Errorf("%d unused tensors; want %d: %v", len(m.Skipped), want, m.Skipped)
	}
}

// TestDetectorRefused checks detectors whose tensors and configuration do not fit.
func TestDetectorRefused(t *testing.T) {
	for name, c := range map[string]struct {
		without, set string
		code         error
		text         string
	}{
		"heads":         {"", encoderPart + "num_attention_heads=5", arch.ErrConfig, "want a divisor of the width 32"},
		"mask heads":    {"", maskPart + "num_attention_heads=64", arch.ErrConfig, "want a divisor of the width 32"},
		"no tokens":     {"token_embedding", "", arch.ErrTensor, "token_embedding.weight: tensor is missing"},
		"no presence":   {"presence_head.layer3.w", "", arch.ErrTensor, "presence_head.layer3.weight: tensor is missing"},
		"no projection": {"dot_product_scoring.text_proj.b", "", arch.ErrTensor, "text_proj.bias: tensor is missing"},
	} {
		es := modeltest.Manifest(t, whole)
		if c.without != "" {
			es = slices.DeleteFunc(es, func(e synth.Entry) bool { return strings.Contains(e.Name, c.without) })
		}
		var set []string
		if c.set != "" {
			set = append(set, c.set)
		}
		_, err := modeltest.TryBuild(modeltest.Open(t, es, dtype.F32), whole+"config.json", set...)
		if !errors.Is(err, c.code) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v; want %v with %q", name, err, c.code, c.text)
		}
	}
}
