package compile_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/compile"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/modeltest"
	"github.com/rlx-go/rlx/internal/synth"
	"github.com/rlx-go/rlx/internal/tensortest"
	_ "github.com/rlx-go/rlx/models/sam"
	"github.com/rlx-go/rlx/plugins/cpu/backend"
)

const golden = "../../testdata/goldens/sam_tiny/"

// compileSAM builds the model of a manifest and compiles it.
func compileSAM(t *testing.T, es []synth.Entry, d dtype.DType, set ...string) modeltest.Compiled {
	t.Helper()
	stored := modeltest.Open(t, es, d)
	return modeltest.Compile(t, modeltest.Build(t, stored, "", set...), stored)
}

// onDevice runs a program on the cpu backend.
func onDevice(t *testing.T, p *program.Program, weights []byte, threads int, syms map[string]int64,
	in map[string]*tensor.Array) map[string]*tensor.Array {
	t.Helper()
	x, err := backend.Backend{}.Load(context.Background(), device.Load{Program: p, Weights: weights, Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	return devicetest.Once(t, x, p, syms, in)
}

// TestSAM compiles the golden model for every target and runs the programs through the simulated memory plan and on the
// cpu backend.
func TestSAM(t *testing.T) {
	for _, name := range []string{"sam_tiny", "sam_flags", "sam_mask_prompt_tiny"} {
		dir := "../../testdata/goldens/" + name
		g := modeltest.OpenSAM(t, dir)
		stored := modeltest.Open(t, modeltest.Manifest(t, dir), dtype.F32)
		c := modeltest.Compile(t, modeltest.Build(t, stored, g.Config, g.Set...), stored)
		embeddings := g.Embeddings(t)
		for _, target := range modeltest.Targets() {
			for _, exec := range []struct {
				name string
				run  func(p *program.Program, syms map[string]int64,
					in map[string]*tensor.Array) map[string]*tensor.Array
			}{
				{"simulated",
					func(p *program.Program, syms map[string]int64,
						in map[string]*tensor.Array) map[string]*tensor.Array {
						out, err := interp.RunProgram(p, syms, in, c.Weights)
						if err != nil {
							t.Fatal(err)
						}
						return out
					}},
				{"cpu", func(p *program.Program, syms map[string]int64,
					in map[string]*tensor.Array) map[string]*tensor.Array {
					return onDevice(t, p, c.Weights, 2, syms, in)
				}},
			} {
				t.Run(name+"/"+target.Name+"/"+exec.name, func(t *testing.T) {
					out := exec.run(c.Find(t, "encode", target.Name), nil, map[string]*tensor.Array{"image": g.Image})
					tensortest.Near(t, "embeddings", out["embeddings"], embeddings, 1e-5)
					for _, q := range g.Prompts {
						out := exec.run(c.Find(t, "decode", target.Name), map[string]int64{"N": int64(q.Points)},
							q.With(embeddings))
						q.Check(t, out, 2e-5)
					}
				})
			}
		}
	}
}

// TestSAMFuses checks what the passes must remove: score matrices, copies of windows, and copies of q, k and v.
func TestSAMFuses(t *testing.T) {
	es, err := synth.ReadManifest(golden + "manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	c := compileSAM(t, es, dtype.F16, "mask_decoder_config.num_attention_heads=2")
	count := func(p *program.Program) map[string]int {
		ops := map[string]int{}
		for _, s := range p.Steps {
			ops[p.Graph.Nodes[s.Node].Op.Name]++
		}
		return ops
	}
	for _, target := range compile.Defaults() {
		enc := count(c.Find(t, "encode", target.Name))
		if enc["grid_attention"] != 4 || enc["softmax"] != 0 || enc["pad"] != 0 || enc["cast"] != 0 ||
			enc["gather"] != 0 {
			t.Errorf("%s encode: %v; want 4 grid_attention and no softmax, pad, cast or gather", target.Name, enc)
		}
		for _, method := range []string{"decode", "decode_batch"} {
			dec := count(c.Find(t, method, target.Name))
			if dec["attention"] != 7 || dec["softmax"] != 0 || dec["cast"] != 0 {
				t.Errorf("%s %s: %v; want 7 attention and no softmax or cast", target.Name, method, dec)
			}
		}
	}
	enc := count(c.Find(t, "encode", "cpu"))
	// Each block has qkv, a projection with residual, two MLP layers, attention and two norms. Patches and neck come in
	// addition.
	if enc["fused_matmul"] != 4*4+1 || enc["layer_norm"] != 2*4+2 || enc["add"] != 0 || enc["narrow"] != 0 {
		t.Errorf("cpu encode: %v; want 17 fused_matmul, 10 layer_norm, no add or narrow", enc)
	}
}

// TestSAMGrids compiles shapes that the golden model lacks, and compares the compiled programs with the uncompiled
// graph.
func TestSAMGrids(t *testing.T) {
	es, err := synth.ReadManifest(golden + "manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name                string
		grid, patch, window int
	}{
		{"window without padding", 8, 16, 4}, {"window larger than half the grid", 8, 8, 5},
		{"window of the whole grid", 6, 4, 6},
		{"window larger than the grid", 4, 8, 7}, {"odd grid", 7, 5, 2}, {"one patch per window", 5, 3, 1},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			edited := resize(es, c.grid, c.patch, c.window)
			m := compileSAM(t, edited, dtype.F32, "mask_decoder_config.num_attention_heads=2")
			side := c.grid * c.patch
			image := tensortest.F32([]int{1, 3, side, side}, synth.Tensor("image", []int{1, 3, side, side}, 2, 0))
			want, err := interp.Run(modeltest.Build(t, modeltest.Open(t, edited, dtype.F32), "").Methods[0], nil,
				map[string]*tensor.Array{"image": image}, func(name string) (*tensor.Array, error) {
					for _, e := range edited {
						if e.Name == name {
							return tensortest.F32(e.Shape, synth.Tensor(e.Name, e.Shape, e.Scale, e.Shift)), nil
						}
					}
					return nil, fmt.Errorf("no tensor %s", name)
				})
			if err != nil {
				t.Fatal(err)
			}
			for _, target := range modeltest.Targets() {
				got := onDevice(t, m.Find(t, "encode", target.Name), m.Weights, 2, nil,
					map[string]*tensor.Array{"image": image})
				tensortest.Near(t, target.Name, got["embeddings"], want["embeddings"], 1e-5)
			}
		})
	}
}

// resize changes a manifest to another grid, patch and window; blocks 1 and 3 stay global.
func resize(es []synth.Entry, grid, patch, window int) []synth.Entry {
	out := slices.Clone(es)
	for i := range out {
		e := &out[i]
		e.Shape = slices.Clone(e.Shape)
		switch {
		case e.Name == "image_encoder.pos_embed":
			e.Shape[1], e.Shape[2] = grid, grid
		case e.Name == "image_encoder.patch_embed.proj.weight":
			e.Shape[2], e.Shape[3] = patch, patch
		case strings.Contains(e.Name, "rel_pos"):
			side := window
			if strings.Contains(e.Name, "blocks.1.") || strings.Contains(e.Name, "blocks.3.") {
				side = grid
			}
			e.Shape[0] = 2*side - 1
		}
	}
	return out
}

// TestThreads checks that results have the same bits for any number of threads.
func TestThreads(t *testing.T) {
	es, err := synth.ReadManifest(golden + "manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	c := compileSAM(t, es, dtype.BF16, "mask_decoder_config.num_attention_heads=2")
	image := tensortest.Golden(t, golden+"golden.safetensors:image")
	var first []byte
	for _, threads := range []int{1, 2, 3, 7} {
		out := onDevice(t, c.Find(t, "encode", "cpu"), c.Weights, threads, nil,
			map[string]*tensor.Array{"image": image})
		bits := out["embeddings"].Tensor().Data
		if first == nil {
			first = bits
		} else if !slices.Equal(first, bits) {
			t.Errorf("%d threads give other bits than 1", threads)
		}
	}
}
