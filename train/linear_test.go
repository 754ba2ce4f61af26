package train_test

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/rlxtest"
	"github.com/rlx-go/rlx/train"
)

// TestLinearAttention trains an adapter of a tiny Qwen3.5, which has three layers of gated_delta_net, as Transformers
// and PEFT did in float64. testdata/qwen35/qwen35.py writes the numbers. It runs on cpu only, because the optimizer
// magnifies rounding here: with sums in the order of wgpu the second norm differs by 5.1e-6. The ops of wgpu are judged
// one by one.
func TestLinearAttention(t *testing.T) {
	var golden struct {
		IDs        [][][]int `json:"ids"`
		Loss, Norm []float64
	}
	data, err := os.ReadFile("testdata/qwen35/golden.json")
	if err == nil {
		err = json.Unmarshal(data, &golden)
	}
	if err != nil {
		t.Fatal(err)
	}
	m := rlxtest.Open(t, rlxtest.CompileGolden(t, goldens+"qwen35_tiny", "--train", "lora=2,alpha=4", "--train-layers",
		"in_proj_qkv,in_proj_z,in_proj_a,in_proj_b,out_proj,q_proj,o_proj", "--train-batch", "2", "--train-tokens", "41"))
	tr, err := train.New(t.Context(), rlxtest.Session(t, m, rlx.Options{}), nil, train.Options{
		Settings: train.Settings{Steps: len(golden.Loss), Schedule: train.Constant, LearningRate: 1e-3, Beta1: 0.9,
			Beta2: 0.999, Epsilon: 1e-8, WeightDecay: 0.01, Clip: 1},
		Adapter: "testdata/qwen35/adapter",
		Batches: func(step int) []int { return slices.Concat(golden.IDs[step]...) },
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, loss := range golden.Loss {
		x, err := tr.Step(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		// PyTorch in f32 differs by 7e-8 and 2.6e-6.
		if !(math.Abs(x.Loss/loss-1) <= 2e-6) || !(math.Abs(x.Norm/golden.Norm[i]-1) <= 5e-6) {
			t.Errorf("step %d: loss %v, norm %v; want %v, %v", i, x.Loss, x.Norm, loss, golden.Norm[i])
		}
	}
}
