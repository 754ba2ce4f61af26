//go:build cgo && (darwin || amd64)

package backend

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/compile"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/synth"
	"github.com/rlx-go/rlx/internal/tensortest"
	"github.com/rlx-go/rlx/models/arch"
	_ "github.com/rlx-go/rlx/models/sam"
	"github.com/rlx-go/rlx/models/weights"
	cpu "github.com/rlx-go/rlx/plugins/cpu/backend"
)

const golden = "../../../testdata/goldens/sam_tiny/"

// params reads the weights that the compiler folds.
type params struct{ weights.Stored }

func (p params) Param(name string) (*tensor.Array, error) {
	t, ok := p.Type(name)
	if !ok {
		return nil, fmt.Errorf("no tensor %s", name)
	}
	b, err := p.Bytes(name, t.DType)
	return tensor.Tensor{DType: t.DType, Shape: t.Shape.Eval(nil), Data: b}.Array(), err
}

// compileSAM compiles the golden model with weights stored in d, for every target.
func compileSAM(t *testing.T, d dtype.DType) (find func(method, target string) *program.Program, section []byte) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	es, err := synth.ReadManifest(golden + "manifest.json")
	must(err)
	path := filepath.Join(t.TempDir(), "model.safetensors")
	must(synth.Write(path, es, d))
	c, err := weights.Open(path)
	must(err)
	t.Cleanup(func() { c.Close() })
	stored := weights.Stored{Checkpoint: c}
	a, err := arch.Find("auto", stored, path)
	must(err)
	var cfg arch.Config
	must(cfg.Set("mask_decoder_config.num_attention_heads=2", a.Keys))
	m, err := a.Build(stored, cfg)
	must(err)
	r, err := compile.Compile(context.Background(), m.Methods, compile.Options{
		Targets: compile.Defaults(), Params: params{stored},
		Layout: func(ws []compile.Weight) (at int64, err error) {
			for i := range ws {
				ws[i].Offset = at
				at += program.AlignUp(ws[i].Size())
			}
			return at, nil
		},
	})
	must(err)
	section = tensor.AlignedBytes(int(r.WeightsSize))
	for _, w := range r.Weights {
		data := w.Data
		if data == nil {
			data, err = stored.Bytes(w.Name, w.Type.DType)
			must(err)
		}
		copy(section[w.Offset:], data)
	}
	return func(method, target string) *program.Program {
		i := slices.IndexFunc(r.Programs, func(p *program.Program) bool { return p.Method == method && p.Target == target })
		if i < 0 {
			t.Fatalf("no program %s for %s", method, target)
		}
		return r.Programs[i]
	}, section
}

var onDevice = devicetest.Once

// load loads a program, or skips the test where there is no adapter and none is asked for.
func load(t *testing.T, b *Backend, p *program.Program, section []byte) device.Executable {
	t.Helper()
	x, err := b.Load(context.Background(), device.Load{Program: p, Weights: section})
	if errors.Is(err, device.ErrUnavailable) && os.Getenv("RLX_REQUIRE_GPU") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return x
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

// TestSAM compares every target of the golden model with the results of the model's authors.
func TestSAM(t *testing.T) { testSAM(t, shared, dtype.F32, 1e-5, 2e-5) }

func testSAM(t *testing.T, b *Backend, d dtype.DType, encode, decode float64) {
	find, section := compileSAM(t, d)
	image := tensortest.Golden(t, golden+"golden.safetensors:image")
	embeddings := tensortest.Golden(t, golden+"golden.safetensors:image_embeddings")
	for _, target := range compile.Defaults() {
		t.Run(target.Name, func(t *testing.T) {
			p := find("encode", target.Name)
			out := onDevice(t, load(t, b, p, section), p, nil, map[string]*tensor.Array{"image": image})
			tensortest.Near(t, "embeddings", out["embeddings"], embeddings, encode)
			p = find("decode", target.Name)
			x := load(t, b, p, section)
			for _, q := range prompts {
				n := len(q.labels)
				out := onDevice(t, x, p, map[string]int64{"N": int64(n)}, map[string]*tensor.Array{
					"embeddings": embeddings, "points": tensortest.F32([]int{1, n, 2}, q.points),
					"labels": {DType: dtype.I32, Shape: []int{1, n}, I: q.labels},
				})
				for name, got := range map[string]*tensor.Array{"low_res_masks": out["low_res_masks"], "iou": out["iou"]} {
					per := got.Len() / got.Shape[1]
					cut := &tensor.Array{DType: got.DType, Shape: append([]int{1, q.count}, got.Shape[2:]...), F: got.F[q.first*per : (q.first+q.count)*per]}
					tensortest.Near(t, q.name+" "+name, cut, tensortest.Golden(t, golden+"golden.safetensors:"+q.name+"."+name), decode)
				}
			}
		})
	}
}

// TestAgreement runs the same programs on the cpu backend and on the device: results differ by at most 2e-4 of the largest.
func TestAgreement(t *testing.T) {
	find, section := compileSAM(t, dtype.F32)
	image := tensortest.Golden(t, golden+"golden.safetensors:image")
	encode, decode := find("encode", "cpu"), find("decode", "cpu")
	both := func(p *program.Program, syms map[string]int64, in map[string]*tensor.Array) map[string]*tensor.Array {
		x, err := (&cpu.Backend{}).Load(context.Background(), device.Load{Program: p, Weights: section, Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		want := onDevice(t, x, p, syms, in)
		for name, got := range onDevice(t, load(t, shared, p, section), p, syms, in) {
			tensortest.Near(t, p.Method+" "+name, got, want[name], 2e-4)
		}
		return want
	}
	embeddings := both(encode, nil, map[string]*tensor.Array{"image": image})["embeddings"]
	for _, q := range prompts {
		n := len(q.labels)
		both(decode, map[string]int64{"N": int64(n)}, map[string]*tensor.Array{
			"embeddings": embeddings, "points": tensortest.F32([]int{1, n, 2}, q.points),
			"labels": {DType: dtype.I32, Shape: []int{1, n}, I: q.labels},
		})
	}
}
