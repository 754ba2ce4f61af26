package train

import (
	"context"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/task"
)

// scratchDeviation is the standard deviation of the random weights of a model, as in GPT-2 and Llama.
const scratchDeviation = 0.02

// checkStart checks that the options about the first values apply to the artifact.
func (t *Trainer) checkStart() error {
	lora := t.task.Rank > 0
	switch {
	case lora && t.options.Scratch:
		return diag.New(diag.Usage, "from-scratch", "applies to models that are trained as a whole (rlxc --train full)")
	case !lora && t.options.Adapter != "":
		return diag.New(diag.Usage, "adapter", "applies to models that were compiled with rlxc --train lora=RANK")
	}
	return nil
}

// begin sets the first values.
func (t *Trainer) begin(ctx context.Context) error {
	if t.options.Adapter != "" {
		return t.loadAdapter(ctx, t.options.Adapter)
	}
	if t.task.Rank == 0 && !t.options.Scratch {
		_, err := t.session.Run(ctx, rlx.Request{Method: t.task.Init, State: t.state})
		return err
	}
	for _, v := range t.trained() {
		shape := sizes(v)
		if err := t.write(ctx, v.Name, shape, t.random(v.Name, shape)); err != nil {
			return err
		}
	}
	return nil
}

// random returns first values: those of PEFT for adapters (A uniform within 1/sqrt(inputs), B zero), and otherwise
// those of Options.Scratch.
func (t *Trainer) random(name string, shape []int) []float32 {
	h := fnv.New64a()
	h.Write([]byte(name))
	r := rand.New(rand.NewPCG(t.options.Seed, h.Sum64()))
	out := make([]float32, tensor.Numel(shape))
	for i := range out {
		switch {
		case strings.HasSuffix(name, task.LoraB):
		case strings.HasSuffix(name, task.LoraA):
			out[i] = float32((2*r.Float64() - 1) / math.Sqrt(float64(shape[1])))
		case strings.HasSuffix(name, ".bias"):
		case len(shape) == 1:
			out[i] = 1
		default:
			// Box and Muller
			u, v := 1-r.Float64(), r.Float64()
			out[i] = float32(scratchDeviation * math.Sqrt(-2*math.Log(u)) * math.Cos(2*math.Pi*v))
		}
	}
	return out
}
