package compile_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/compile"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/synth"
	"github.com/rlx-go/rlx/internal/tensortest"
	"github.com/rlx-go/rlx/models/arch"
	_ "github.com/rlx-go/rlx/models/sam"
	"github.com/rlx-go/rlx/models/weights"
	"github.com/rlx-go/rlx/plugins/cpu/backend"
)

const golden = "../../testdata/goldens/sam_tiny/"

// compiled is a golden model compiled in process, with its weights as they would lie in an artifact.
type compiled struct {
	*compile.Result
	weights []byte
}

type params struct{ weights.Stored }

func (p params) Param(name string) (*tensor.Array, error) {
	t, ok := p.Type(name)
	if !ok {
		return nil, fmt.Errorf("no tensor %s", name)
	}
	b, err := p.Bytes(name, t.DType)
	return tensor.Tensor{DType: t.DType, Shape: t.Shape.Eval(nil), Data: b}.Array(), err
}

// allTargets are the built-in ones.
func allTargets() []compile.Target {
	var out []compile.Target
	for _, d := range target.Builtin() {
		out = append(out, compile.Target{Name: d.Name, Takes: d})
	}
	return out
}

// compileSAM builds and compiles the model of a manifest whose tensors were changed by edit.
func compileSAM(t *testing.T, es []synth.Entry, d dtype.DType, set ...string) compiled {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if err := synth.Write(path, es, d); err != nil {
		t.Fatal(err)
	}
	c, err := weights.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	stored := weights.Stored{Checkpoint: c}
	a, err := arch.Find("auto", stored, path)
	if err != nil {
		t.Fatal(err)
	}
	var cfg arch.Config
	for _, s := range set {
		if err := cfg.Set(s, a.Keys); err != nil {
			t.Fatal(err)
		}
	}
	m, err := a.Build(stored, cfg)
	if err != nil {
		t.Fatal(err)
	}
	r, err := compile.Compile(context.Background(), m.Methods, compile.Options{
		Targets: allTargets(), Params: params{stored},
		Layout: func(ws []compile.Weight) (at int64, err error) {
			for i := range ws {
				ws[i].Offset = at
				at += program.AlignUp(ws[i].Size())
			}
			return at, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	out := compiled{r, tensor.AlignedBytes(int(r.WeightsSize))}
	for _, w := range r.Weights {
		data := w.Data
		if data == nil {
			if data, err = stored.Bytes(w.Name, w.Type.DType); err != nil {
				t.Fatal(err)
			}
		}
		copy(out.weights[w.Offset:], data)
	}
	return out
}

func (c compiled) find(t *testing.T, method, target string) *program.Program {
	t.Helper()
	i := slices.IndexFunc(c.Programs, func(p *program.Program) bool { return p.Method == method && p.Target == target })
	if i < 0 {
		t.Fatalf("no program %s for %s", method, target)
	}
	return c.Programs[i]
}

// onDevice runs a program on the cpu backend.
func onDevice(t *testing.T, p *program.Program, weights []byte, threads int, syms map[string]int64, in map[string]*tensor.Array) map[string]*tensor.Array {
	t.Helper()
	x, err := backend.Backend{}.Load(context.Background(), device.Load{Program: p, Weights: weights, Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	return devicetest.Once(t, x, p, syms, in)
}

// prompts of the goldens.
var prompts = []struct {
	name   string
	points []float32
	labels []int64
	first  int // mask tokens that the golden holds
	count  int
}{
	{"point", []float32{38.4, 76.8, 0, 0}, []int64{1, -1}, 1, 3},
	{"two_points", []float32{38.4, 76.8, 89.6, 25.6, 0, 0}, []int64{1, 0, -1}, 0, 1},
	{"box", []float32{25.6, 32, 102.4, 96}, []int64{2, 3}, 1, 3},
}

// TestSAM compiles the golden model for every target and runs the programs through the simulated memory plan and on the
// cpu backend.
func TestSAM(t *testing.T) {
	es, err := synth.ReadManifest(golden + "manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	c := compileSAM(t, es, dtype.F32, "mask_decoder_config.num_attention_heads=2")
	image := tensortest.Golden(t, golden+"golden.safetensors:image")
	embeddings := tensortest.Golden(t, golden+"golden.safetensors:image_embeddings")
	for _, target := range allTargets() {
		for _, exec := range []struct {
			name string
			run  func(p *program.Program, syms map[string]int64, in map[string]*tensor.Array) map[string]*tensor.Array
		}{
			{"simulated", func(p *program.Program, syms map[string]int64, in map[string]*tensor.Array) map[string]*tensor.Array {
				out, err := interp.RunProgram(p, syms, in, c.weights)
				if err != nil {
					t.Fatal(err)
				}
				return out
			}},
			{"cpu", func(p *program.Program, syms map[string]int64, in map[string]*tensor.Array) map[string]*tensor.Array {
				return onDevice(t, p, c.weights, 2, syms, in)
			}},
		} {
			t.Run(target.Name+"/"+exec.name, func(t *testing.T) {
				out := exec.run(c.find(t, "encode", target.Name), nil, map[string]*tensor.Array{"image": image})
				tensortest.Near(t, "embeddings", out["embeddings"], embeddings, 1e-5)
				for _, q := range prompts {
					n := len(q.labels)
					out := exec.run(c.find(t, "decode", target.Name), map[string]int64{"N": int64(n)}, map[string]*tensor.Array{
						"embeddings": embeddings, "points": tensortest.F32([]int{1, n, 2}, q.points),
						"labels": {DType: dtype.I32, Shape: []int{1, n}, I: q.labels},
					})
					for name, got := range map[string]*tensor.Array{"low_res_masks": out["low_res_masks"], "iou": out["iou"]} {
						per := got.Len() / got.Shape[1]
						cut := &tensor.Array{DType: got.DType, Shape: append([]int{1, q.count}, got.Shape[2:]...), F: got.F[q.first*per : (q.first+q.count)*per]}
						tensortest.Near(t, q.name+" "+name, cut, tensortest.Golden(t, golden+"golden.safetensors:"+q.name+"."+name), 2e-5)
					}
				}
			})
		}
	}
}

// TestSAMFuses holds what the passes must achieve: no score matrix, no window copies, no copies of q, k and v.
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
		enc := count(c.find(t, "encode", target.Name))
		if enc["grid_attention"] != 4 || enc["softmax"] != 0 || enc["pad"] != 0 || enc["cast"] != 0 || enc["gather"] != 0 {
			t.Errorf("%s encode: %v; want 4 grid_attention and no softmax, pad, cast or gather", target.Name, enc)
		}
		dec := count(c.find(t, "decode", target.Name))
		if dec["attention"] != 7 || dec["softmax"] != 0 || dec["cast"] != 0 {
			t.Errorf("%s decode: %v; want 7 attention and no softmax or cast", target.Name, dec)
		}
	}
	enc := count(c.find(t, "encode", "cpu"))
	// Per block: qkv, projection with residual, two MLP layers, attention, two norms. Around them: patches, neck.
	if enc["fused_matmul"] != 4*4+1 || enc["layer_norm"] != 2*4+2 || enc["add"] != 0 || enc["narrow"] != 0 {
		t.Errorf("cpu encode: %v; want 17 fused_matmul, 10 layer_norm, no add or narrow", enc)
	}
}

// TestSAMGrids compiles shapes that the golden lacks, and compares the compiled programs with the graph as it was built.
func TestSAMGrids(t *testing.T) {
	es, err := synth.ReadManifest(golden + "manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name                string
		grid, patch, window int
	}{
		{"window without padding", 8, 16, 4}, {"window larger than half the grid", 8, 8, 5}, {"window of the whole grid", 6, 4, 6},
		{"window larger than the grid", 4, 8, 7}, {"odd grid", 7, 5, 2}, {"one patch per window", 5, 3, 1},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			edited := resize(es, c.grid, c.patch, c.window)
			m := compileSAM(t, edited, dtype.F32, "mask_decoder_config.num_attention_heads=2")
			side := c.grid * c.patch
			image := tensortest.F32([]int{1, 3, side, side}, synth.Tensor("image", []int{1, 3, side, side}, 2, 0))
			want, err := interp.Run(build(t, edited), nil, map[string]*tensor.Array{"image": image}, func(name string) (*tensor.Array, error) {
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
			for _, target := range allTargets() {
				got := onDevice(t, m.find(t, "encode", target.Name), m.weights, 2, nil, map[string]*tensor.Array{"image": image})
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

// build is the encoder's graph as the model writes it.
func build(t *testing.T, es []synth.Entry) *ir.Graph {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if err := synth.Write(path, es, dtype.F32); err != nil {
		t.Fatal(err)
	}
	c, err := weights.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	stored := weights.Stored{Checkpoint: c}
	a, err := arch.Find("sam", stored, path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := a.Build(stored, arch.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return m.Methods[0]
}

// TestThreads: the same bits for any number of threads.
func TestThreads(t *testing.T) {
	es, err := synth.ReadManifest(golden + "manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	c := compileSAM(t, es, dtype.BF16, "mask_decoder_config.num_attention_heads=2")
	image := tensortest.Golden(t, golden+"golden.safetensors:image")
	var first []byte
	for _, threads := range []int{1, 2, 3, 7} {
		out := onDevice(t, c.find(t, "encode", "cpu"), c.weights, threads, nil, map[string]*tensor.Array{"image": image})
		bits := out["embeddings"].Tensor().Data
		if first == nil {
			first = bits
		} else if !slices.Equal(first, bits) {
			t.Errorf("%d threads give other bits than 1", threads)
		}
	}
}
