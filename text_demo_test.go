package rlx_test

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rlx-go/rlx"
)

// TestDemoLlama compares the demo language model with what the Transformers library generates (demo/llama/README.md).
func TestDemoLlama(t *testing.T) {
	t.Parallel()
	var want struct {
		Prompt, Text string
		PromptIDs    []int `json:"prompt_ids"`
		IDs          []int
		LogProbs     []float64
	}
	file, err := os.ReadFile("demo/llama/golden.json")
	if err == nil {
		err = json.Unmarshal(file, &want)
	}
	if err != nil {
		t.Fatal(err)
	}
	g, err := session(t, open(t, demoLlama()), rlx.Options{}).NewGenerator(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	prompt, err := g.Encode(want.Prompt)
	if err != nil || !slices.Equal(prompt, want.PromptIDs) {
		t.Fatalf("the prompt is %v, %v; want %v", prompt, err, want.PromptIDs)
	}
	x := generate(t, g, prompt, rlx.TextOptions{Tokens: len(want.IDs)})
	if !slices.Equal(x.IDs(), want.IDs) || x.Text != want.Text {
		t.Errorf("%v\n%s\nwant %v\n%s", x.IDs(), x.Text, want.IDs, want.Text)
	}
	for i, token := range x.Tokens {
		if d := float64(token.LogProb) - want.LogProbs[i]; math.Abs(d) > 1e-4 {
			t.Errorf("token %d: log probability %v; want %v", i, token.LogProb, want.LogProbs[i])
		}
	}
}

// wgpu builds the wgpu backend. The test is skipped unless RLX_REQUIRE_GPU asks for it.
func wgpu(t *testing.T) rlx.Backend {
	if os.Getenv("RLX_REQUIRE_GPU") == "" {
		t.Skip("set RLX_REQUIRE_GPU=1 to build and run the wgpu backend")
	}
	path := filepath.Join(t.TempDir(), "rlx-backend-wgpu")
	build := exec.Command("go", "build", "-o", path, "./plugins/wgpu")
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	out, err := build.CombinedOutput()
	declaration, err2 := os.ReadFile("plugins/wgpu/rlx-backend-wgpu.sandbox")
	if err := errors.Join(err, err2, os.WriteFile(path+".sandbox", declaration, 0o644)); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return rlx.Backend{Name: "wgpu", Path: path}
}

// TestDemoLlamaGPU: the same seed gives the same text on the wgpu backend as on the cpu backend.
func TestDemoLlamaGPU(t *testing.T) {
	var texts []*rlx.Text
	for _, b := range []rlx.Backend{cpu(), wgpu(t)} {
		g, err := session(t, open(t, demoLlama()), rlx.Options{Backend: b}).NewGenerator(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		prompt, err := g.Encode("ROMEO:")
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, generate(t, g, prompt, rlx.TextOptions{Tokens: 12}),
			generate(t, g, nil, rlx.TextOptions{Tokens: 12, Seed: 7, Sampling: rlx.Sampling{Temperature: 0.8, TopK: 100, TopP: 0.95, MinP: 0.01, RepeatPenalty: 1.1}}))
	}
	for i := range 2 {
		if a, b := texts[i], texts[2+i]; !slices.Equal(a.IDs(), b.IDs()) {
			t.Errorf("cpu %q, wgpu %q", a.Text, b.Text)
		}
	}
}
