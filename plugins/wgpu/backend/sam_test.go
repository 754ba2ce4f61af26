//go:build cgo && (darwin || amd64)

package backend

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/rlx-go/rlx/core/compile"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/modeltest"
	"github.com/rlx-go/rlx/internal/tensortest"
	_ "github.com/rlx-go/rlx/models/sam"
	cpu "github.com/rlx-go/rlx/plugins/cpu/backend"
)

const golden = "../../../testdata/goldens/sam_tiny/"

// compileSAM compiles the golden model with weights stored in d, for every target.
func compileSAM(t *testing.T, d dtype.DType) (find func(method, target string) *program.Program, section []byte) {
	t.Helper()
	find, section, _ = compileCase(t, golden, d)
	return find, section
}

// compileCase compiles a golden case.
func compileCase(t *testing.T, dir string, d dtype.DType) (find func(method, target string) *program.Program,
	section []byte, g modeltest.SAM) {
	t.Helper()
	g = modeltest.OpenSAM(t, dir)
	stored := modeltest.Open(t, modeltest.Manifest(t, dir), d)
	c := modeltest.Compile(t, modeltest.Build(t, stored, g.Config, g.Set...), stored, compile.Defaults()...)
	return func(method, target string) *program.Program { return c.Find(t, method, target) }, c.Weights, g
}

var onDevice = devicetest.Once

// load loads a program. It skips the test if there is no adapter and the environment does not require one.
func load(t *testing.T, b device.Backend, p *program.Program, section []byte) device.Executable {
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

// first describes the adapter that tests run on.
func first(t *testing.T) device.Device {
	t.Helper()
	info, err := shared.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return info.Devices[0]
}

// TestSAM compares programs of the golden models with the results of their authors. A sample has one model, for one of
// the targets.
func TestSAM(t *testing.T) {
	for _, name := range devicetest.SomeOf(t, 1, []string{"sam_tiny", "sam_flags", "sam_mask_prompt_tiny"}) {
		t.Run(name, func(t *testing.T) { testSAM(t, shared, "../../../testdata/goldens/"+name, dtype.F32, 1e-5, 2e-5) })
	}
}

func testSAM(t *testing.T, b device.Backend, dir string, d dtype.DType, encode, decode float64) {
	find, section, g := compileCase(t, dir, d)
	embeddings := g.Embeddings(t)
	for _, target := range devicetest.SomeOf(t, 1, compile.Defaults()) {
		t.Run(target.Name, func(t *testing.T) {
			p := find("encode", target.Name)
			out := onDevice(t, load(t, b, p, section), p, nil, map[string]*tensor.Array{"image": g.Image})
			tensortest.Near(t, "embeddings", out["embeddings"], embeddings, encode)
			p = find("decode", target.Name)
			x := load(t, b, p, section)
			for _, q := range g.Prompts {
				q.Check(t, onDevice(t, x, p, map[string]int64{"N": int64(q.Points)}, q.With(embeddings)), decode)
			}
		})
	}
}

// TestAgreement runs the same programs on the cpu backend and on the device: results differ by at most 2e-4 of the
// largest.
func TestAgreement(t *testing.T) {
	find, section, g := compileCase(t, golden, dtype.F32)
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
	embeddings := both(find("encode", "cpu"), nil, map[string]*tensor.Array{"image": g.Image})["embeddings"]
	for _, q := range g.Prompts {
		both(find("decode", "cpu"), map[string]int64{"N": int64(q.Points)}, q.With(embeddings))
	}
	points, labels := tensor.NewArray(dtype.F32, 3, 2, 2), tensor.NewArray(dtype.I32, 3, 2)
	for i := range points.Floats {
		points.Floats[i], labels.Ints[i/2] = float64(9*i), int64(1-i/2%2*2) // a point and padding each
	}
	both(find("decode_batch", "wgpu"), map[string]int64{"N": 2, "P": 3},
		map[string]*tensor.Array{"embeddings": embeddings, "points": points, "labels": labels})
}
