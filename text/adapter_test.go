package text_test

import (
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/rlxtest"
	"github.com/rlx-go/rlx/text"
)

// loraModel returns the demo language model with room for adapters of rank 6, compiled once.
var loraModel = sync.OnceValue(func() string {
	path := rlxtest.Scratch("lora.rlx")
	rlxtest.Compile(path, "../demo/llama", "--lora", "6")
	return path
})

// TestAdapters compares adapters with models into which PEFT has merged them (bench/lora/golden.py): one session
// switches between them, after a run without any and with one again.
func TestAdapters(t *testing.T) {
	t.Parallel()
	var golden struct {
		IDs    []int64
		Base   []float64
		Merged map[string][]float64
	}
	file, err := os.ReadFile("testdata/lora/golden.json")
	if err == nil {
		err = json.Unmarshal(file, &golden)
	}
	if err != nil {
		t.Fatal(err)
	}
	ids, err := rlx.NewTensor(golden.IDs, 1, len(golden.IDs))
	if err != nil {
		t.Fatal(err)
	}
	on := map[string]rlx.Options{"cpu": {}}
	if os.Getenv("RLX_REQUIRE_GPU") != "" {
		on["wgpu"] = rlxtest.OnGPU(t)
	}
	for backend, o := range on {
		m := rlxtest.Open(t, loraModel())
		s := rlxtest.Session(t, m, o)
		check := func(what string, want []float64) {
			t.Helper()
			in := map[string]rlx.Tensor{"input_ids": ids}
			r, err := s.Run(t.Context(), rlx.Request{Method: "forward", Inputs: in})
			if err != nil {
				t.Fatal(err)
			}
			all, err := rlx.Values[float32](r.Outputs["logits"])
			if err != nil {
				t.Fatal(err)
			}
			worst := 0.0
			for i, v := range all[len(all)-len(want):] {
				worst = max(worst, math.Abs(float64(v)-want[i]))
			}
			if !(worst < 1e-4) {
				t.Errorf("%s: %s: logits differ by up to %g", backend, what, worst)
			}
		}
		check("no adapter", golden.Base)
		var last *text.Adapter
		for _, name := range []string{"plain", "rslora", "plain"} {
			if last, err = text.OpenAdapter(m, filepath.Join("testdata/lora", name)); err != nil {
				t.Fatal(err)
			}
			if err := s.SetWeights(t.Context(), last.Weights()); err != nil {
				t.Fatal(err)
			}
			check(name, golden.Merged[name])
		}
		if last.Layers != 12 || last.Rank != 2 {
			t.Errorf("%d layers of rank %d; want 12 of rank 2", last.Layers, last.Rank)
		}
		if err := s.ResetWeights(t.Context()); err != nil {
			t.Fatal(err)
		}
		check("no adapter again", golden.Base)
	}
}

// TestAdapterRefused checks adapters that do not fit, or that compute something else.
func TestAdapterRefused(t *testing.T) {
	t.Parallel()
	m := rlxtest.Open(t, loraModel())
	_, err := text.OpenAdapter(rlxtest.Open(t, rlxtest.Llama()), "testdata/lora/plain")
	if !strings.Contains(err.Error(), "takes no adapters") || !isUsage(err) {
		t.Error(err)
	}
	small := rlxtest.Scratch("lora1.rlx")
	rlxtest.Compile(small, "../demo/llama", "--lora", "1", "--target", "cpu")
	_, err = text.OpenAdapter(rlxtest.Open(t, small), "testdata/lora/plain")
	rlxtest.WantError(t, "rank", err, text.ErrAdapter)
	if !strings.Contains(err.Error(), "has rank 2; the model takes up to 1") {
		t.Error(err)
	}
	_, err = text.OpenAdapter(m, t.TempDir())
	rlxtest.WantError(t, "no files", err, text.ErrAdapter)

	config, err := os.ReadFile("testdata/lora/plain/adapter_config.json")
	if err != nil {
		t.Fatal(err)
	}
	tensors, err := os.ReadFile("testdata/lora/plain/adapter_model.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct{ key, value, want string }{
		"dora":     {"use_dora", "true", "DoRA is not supported"},
		"bias":     {"bias", `"all"`, "changes biases"},
		"kind":     {"peft_type", `"IA3"`, `peft_type is "IA3"`},
		"alpha":    {"lora_alpha", "null", "lora_alpha is not a finite number"},
		"fan":      {"fan_in_fan_out", "true", "fan_in_fan_out is true"},
		"copies":   {"layer_replication", "[[0,4],[2,5]]", "layer_replication is not supported"},
		"patterns": {"alpha_pattern", `{"(": 3}`, "is not a pattern"},
	} {
		var all map[string]json.RawMessage
		if err := json.Unmarshal(config, &all); err != nil {
			t.Fatal(err)
		}
		all[c.key] = json.RawMessage(c.value)
		changed, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		_, err = text.OpenAdapter(m, adapterFolder(t, changed, tensors))
		rlxtest.WantError(t, what, err, text.ErrAdapter)
		if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %s", what, err, c.want)
		}
	}
	for what, c := range map[string]struct{ old, new, want string }{
		"another layer": {"layers.5.self_attn.q_proj.lora_A", "layers.7.self_attn.q_proj.lora_A",
			"for which the model takes no adapter"},
		"another tensor": {"layers.5.self_attn.q_proj.lora_A", "layers.5.self_attn.q_proj.lora_E",
			"is not part of a LoRA adapter"},
		"one of two": {"layers.5.self_attn.q_proj.lora_A", "layers.5.self_attn.o_proj.lora_A", "has only one of"},
	} {
		if len(c.old) != len(c.new) || !strings.Contains(string(tensors), c.old) {
			t.Fatalf("%s: %s cannot be replaced in place", what, c.old)
		}
		changed := []byte(strings.Replace(string(tensors), c.old, c.new, 1))
		_, err = text.OpenAdapter(m, adapterFolder(t, config, changed))
		rlxtest.WantError(t, what, err, text.ErrAdapter)
		if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %s", what, err, c.want)
		}
	}
}

func isUsage(err error) bool {
	c, ok := diag.CodeOf(err)
	return ok && c == diag.Usage
}

// adapterFolder writes an adapter.
func adapterFolder(t *testing.T, config, tensors []byte) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string][]byte{"adapter_config.json": config, "adapter_model.safetensors": tensors}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := os.WriteFile(filepath.Join(dir, name), files[name], 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
