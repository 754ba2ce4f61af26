package compile_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/compile"
	"github.com/rlx-go/rlx/core/diag"
)

// TestCheckpoint checks that TrainOptions.Checkpoint takes less memory, by one layer's values for each layer but one.
func TestCheckpoint(t *testing.T) {
	for _, c := range []struct {
		mode string
		most float64 // of the arena without it; full training has the gradients of all weights, too
	}{{"lora=4", 0.5}, {"full", 0.65}} {
		var arenas []int64
		for _, checkpoint := range []bool{false, true} {
			m, err := compile.Load(t.Context(), "../demo/llama", compile.Options{Targets: []string{"cpu"},
				Train: compile.TrainOptions{Mode: c.mode, Tokens: 256, Batch: 4, Checkpoint: checkpoint}})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			r, err := m.Compile(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range r.Programs {
				if p.Method == "train_step" {
					arenas = append(arenas, p.ArenaBytes)
				}
			}
		}
		if len(arenas) != 2 || float64(arenas[1]) > c.most*float64(arenas[0]) {
			t.Errorf("%s: arenas of %v bytes, without and with checkpoints", c.mode, arenas)
		}
	}
	_, err := compile.Load(t.Context(), "../demo/llama", compile.Options{Train: compile.TrainOptions{Checkpoint: true}})
	if !errors.Is(err, diag.Usage) || !strings.Contains(err.Error(), "--checkpoint: requires --train") {
		t.Error(err)
	}
}
