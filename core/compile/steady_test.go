package compile_test

import (
	"context"
	"github.com/rlx-go/rlx/core/compile"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/synth"
	"github.com/rlx-go/rlx/plugins/cpu/backend"
)

// TestSteadyRunAllocations runs the golden model on the cpu backend until its scratch memory is allocated. After that
// only grid attention may allocate.
func TestSteadyRunAllocations(t *testing.T) {
	es, err := synth.ReadManifest(golden + "manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	c := compileSAM(t, es, dtype.F32, "mask_decoder_config.num_attention_heads=2")
	for _, target := range compile.Defaults() {
		for _, method := range []string{"encode", "decode"} {
			for _, precision := range []string{"f32", "bf16"} {
				t.Run(target.Name+"/"+method+"/"+precision, func(t *testing.T) {
					p := c.Find(t, method, target.Name)
					x, err := backend.Backend{}.Load(
						context.Background(),
						device.Load{Program: p, Weights: c.Weights, Threads: 2, Precision: precision})
					if err != nil {
						t.Fatal(err)
					}
					defer x.Close()
					r := device.Run{Syms: map[string]int64{"N": 3}, IO: tensor.AlignedBytes(int(p.IOSize))}
					if method == "encode" {
						r.Syms = nil
					}
					run := func() {
						if _, err := x.Run(context.Background(), r); err != nil {
							t.Fatal(err)
						}
					}
					for range 3 {
						run()
					}
					limit := 0
					for _, s := range p.Steps {
						if p.Graph.Nodes[s.Node].Op.Name == "grid_attention" {
							limit += 10 // for what its tasks share
						}
					}
					if n := testing.AllocsPerRun(20, run); n > float64(limit) {
						t.Errorf("%v allocations in a run of %d steps, want %d at most", n, len(p.Steps), limit)
					}
				})
			}
		}
	}
}
