package train_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/rlxtest"
	"github.com/rlx-go/rlx/internal/tensortest"
	"github.com/rlx-go/rlx/text"
	"github.com/rlx-go/rlx/train"
)

const goldens = "../testdata/goldens/"

// backends returns options for the backends to test: cpu, and the GPU where tests require it.
func backends(t *testing.T) map[string]rlx.Options {
	on := map[string]rlx.Options{"cpu": {}}
	if os.Getenv("RLX_REQUIRE_GPU") != "" {
		on["wgpu"] = rlxtest.OnGPU(t)
	}
	return on
}

// compiled compiles the model of a golden case.
func compiled(t *testing.T, golden string, flags ...string) *rlx.Model {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.rlx")
	rlxtest.Compile(path, goldens+golden+"/model", flags...)
	return rlxtest.Open(t, path)
}

// batches returns the sequences of the steps of a golden case.
func batches(t *testing.T, golden string) func(step int) []int {
	all := tensortest.Golden(t, goldens+golden+"/batches.safetensors:input_ids")
	n := all.Shape[1] * all.Shape[2]
	return func(step int) (out []int) {
		for _, id := range all.Ints[step*n:][:n] {
			out = append(out, int(id))
		}
		return out
	}
}

// value reads a state as an array.
func value(t *testing.T, tr *train.Trainer, name string) *tensor.Array {
	t.Helper()
	r, err := tr.State().Tensor(name)
	if err != nil {
		t.Fatal(err)
	}
	x, err := r.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return tensortest.F32(x.Shape, tensor.View[float32](x.Data))
}

// near checks an array against a golden one.
func near(t *testing.T, what string, got *tensor.Array, golden string, tol float64) {
	t.Helper()
	d, err := tensortest.Compare(got, tensortest.Golden(t, goldens+golden))
	if err != nil || !d.Within(tol) {
		t.Errorf("%s: %v, %v; want at most %g", what, d, err, tol)
	}
}

// A goldenRun is a training that PyTorch did in float64.
type goldenRun struct {
	folder, run string // run is the prefix in golden.safetensors
	flags       []string
	options     train.Options
	names       func(trained string) string // in golden.safetensors
}

func goldenRuns() []goldenRun {
	same := func(name string) string { return name }
	peft := func(name string) string { return "base_model.model." + name + ".weight" }
	adamW := train.Settings{Steps: 20, Schedule: train.Constant, LearningRate: 1e-3, Beta1: 0.9, Beta2: 0.999,
		Epsilon:     1e-8,
		WeightDecay: 0.01, Clip: 1}
	warm := adamW
	warm.Schedule, warm.LearningRate, warm.Warmup, warm.Beta2, warm.WeightDecay = train.Cosine, 2e-3, 3, 0.95, 0.1
	sgd := train.Settings{Steps: 10, Schedule: train.Constant, LearningRate: 0.02, Momentum: 0.9, Epsilon: 1e-8}
	full := []string{"--train", "full", "--train-batch", "2", "--train-tokens", "15", "--optimizer"}
	return []goldenRun{
		{"train_lora", "",
			[]string{"--train", "lora=4", "--train-layers", "q_proj,k_proj,v_proj,o_proj", "--train-batch", "2",
				"--train-tokens", "23", "--optimizer", "adamw"},
			train.Options{Settings: adamW, Adapter: goldens + "train_lora/adapter"}, peft},
		{"train_full", "sgd.", append(full[:len(full):len(full)], "sgd"), train.Options{Settings: sgd}, same},
		{"train_full", "adamw.", append(full[:len(full):len(full)], "adamw"), train.Options{Settings: warm}, same},
	}
}

// TestGoldens trains as PyTorch and PEFT did in float64, and compares losses, norms and the final values.
func TestGoldens(t *testing.T) {
	for _, g := range goldenRuns() {
		t.Run(g.folder+" "+g.run, func(t *testing.T) {
			m := compiled(t, g.folder, g.flags...)
			for backend, o := range backends(t) {
				g.options.Batches = batches(t, g.folder)
				tr, err := train.New(t.Context(), rlxtest.Session(t, m, o), nil, g.options)
				if err != nil {
					t.Fatal(err)
				}
				file := goldens + g.folder + "/golden.safetensors:" + g.run
				losses, norms := tensortest.Golden(t, file+"loss").Floats, tensortest.Golden(t, file+"grad_norm").Floats
				worstLoss, worstNorm := 0.0, 0.0
				for i := range g.options.Steps {
					x, err := tr.Step(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					worstLoss = max(worstLoss, math.Abs(x.Loss/losses[i]-1))
					worstNorm = max(worstNorm, math.Abs(x.Norm/norms[i]-1))
					if i < len(losses) && g.run != "" {
						if rate := tensortest.Golden(t, file+"lr").Floats[i]; math.Abs(x.Rate-rate) > 1e-15 {
							t.Errorf("step %d: rate %v; want %v", i, x.Rate, rate)
						}
					}
				}
				t.Logf("%s: losses differ by up to %.2g, norms by %.2g", backend, worstLoss, worstNorm)
				if !(worstLoss <= 2e-6) || !(worstNorm <= 2e-6) {
					t.Errorf("%s: losses differ by up to %g, norms by %g; want 2e-6", backend, worstLoss, worstNorm)
				}
				values, err := tr.Values(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for name := range values {
					near(t, backend+" final "+name, value(t, tr, "param."+name),
						g.folder+"/golden.safetensors:"+g.run+"final."+g.names(name), 5e-5)
				}
				if g.folder == "train_lora" {
					adapted(t, tr, o)
				}
			}
		})
	}
}

// adapted saves the adapter and checks the logits of the model with it.
func adapted(t *testing.T, tr *train.Trainer, o rlx.Options) {
	dir := filepath.Join(t.TempDir(), "adapter")
	if err := tr.SaveAdapter(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	m := compiled(t, "train_lora", "--lora", "8")
	s := rlxtest.Session(t, m, o)
	prompt := tensortest.Golden(t, goldens+"train_lora/batches.safetensors:prompt_ids")
	ids := make([]int64, len(prompt.Ints))
	for i, id := range prompt.Ints {
		ids[i] = int64(id)
	}
	for _, c := range []struct{ logits, adapter string }{
		{"base", ""}, {"before", goldens + "train_lora/adapter"}, {"after", dir},
		{"after", filepath.Join(dir, "adapter_model.safetensors")}, {"after", goldens + "train_lora/adapter_final"},
	} {
		if c.adapter != "" {
			a, err := text.OpenAdapter(m, c.adapter)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.SetWeights(t.Context(), a.Weights()); err != nil {
				t.Fatal(err)
			}
		}
		x, err := rlx.NewTensor(ids, 1, len(ids))
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Run(t.Context(), rlx.Request{Method: "forward", Inputs: map[string]rlx.Tensor{"input_ids": x}})
		if err != nil {
			t.Fatal(err)
		}
		y := r.Outputs["logits"]
		near(t, "logits "+c.logits+" "+c.adapter, tensortest.F32(y.Shape, tensor.View[float32](y.Data)),
			"train_lora/golden.safetensors:logits."+c.logits, 1e-5)
	}
}

// TestFirstGradients compares the gradients of the first step, which are the velocities of SGD after it.
func TestFirstGradients(t *testing.T) {
	for _, g := range goldenRuns()[:2] {
		flags := append(g.flags[:len(g.flags)-1:len(g.flags)-1], "sgd")
		m := compiled(t, g.folder, flags...)
		for backend, o := range backends(t) {
			g.options.Batches, g.options.Clip = batches(t, g.folder), 0
			tr, err := train.New(t.Context(), rlxtest.Session(t, m, o), nil, g.options)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tr.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, v := range m.States() {
				if name, ok := strings.CutPrefix(v.Name, "m."); ok {
					near(t, backend+" gradient "+name, value(t, tr, v.Name),
						g.folder+"/golden.safetensors:grad0."+g.names(name), 1e-5)
				}
			}
		}
	}
}
