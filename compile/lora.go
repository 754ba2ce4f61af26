package compile

import (
	"fmt"
	"maps"
	"strings"

	"github.com/rlx-go/rlx/core/hir"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/task"
)

// maxLoRA is the largest rank of Options.LoRA. Those in use are 4 to 256.
const maxLoRA = 4096

// addLoRA gives the linear layers of a language model the products of Options.LoRA: all in its layers, and neither the
// embeddings nor the last layer, as PEFT does for "all-linear".
func (m *Model) addLoRA() error {
	rank := m.options.LoRA
	if rank == 0 {
		return nil
	}
	flag := fmt.Sprintf("--lora %d", rank)
	if rank < 0 || rank > maxLoRA {
		return usage(flag, "is not a rank; allowed are 1 to %d", maxLoRA)
	}
	m.adapters = map[string]ir.Type{}
	for i, g := range m.built.Methods {
		out, made, err := hir.Adapt(g, int64(rank), [2]string{task.LoraA, task.LoraB}, func(weight string) bool {
			return strings.HasPrefix(weight, "model.layers.") && strings.HasSuffix(weight, ".weight")
		})
		if err != nil {
			return err
		}
		m.built.Methods[i] = out
		maps.Copy(m.adapters, made)
	}
	if len(m.adapters) == 0 {
		return usage(flag, "the model has no linear layers that can have adapters")
	}
	fact := arch.Fact{Name: "LoRA", Value: fmt.Sprintf("rank up to %d in %d linear layers", rank, len(m.adapters)/2)}
	m.built.Facts = append(m.built.Facts, fact)
	return nil
}
