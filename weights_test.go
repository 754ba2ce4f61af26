package rlx_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/rlxtest"
)

// weightsGraphs are two methods that share weights. Unless s and b are mutable, the compiler computes constants from
// them: q and n.
const weightsGraphs = `graph f
x = input : f32[160,64]
w = param : f32[64,96]
b = param : f32[96]
h = param : f16[96,8]
s = param : f32[8]
m = matmul x, w : f32[160,96]
a = add m, b : f32[160,96]
z = matmul a, h : f32[160,8]
q = mul s, s : f32[8]
y = add z, q : f32[160,8]
n = neg b : f32[96]
return y=y, n=n

graph g
x = input : f32[64]
w = param : f32[64,96]
r = reshape x : f32[1,64]
y = matmul r, w : f32[1,96]
return y=y
`

// compileWeights compiles weightsGraphs with weights that are generated from a seed.
func compileWeights(t *testing.T, seed string, flags ...string) *rlx.Model {
	t.Helper()
	graph, out := filepath.Join(t.TempDir(), "w.txt"), filepath.Join(t.TempDir(), "w.rlx")
	if err := os.WriteFile(graph, []byte(weightsGraphs), 0o666); err != nil {
		t.Fatal(err)
	}
	rlxtest.Compile(out, graph, append(flags, "--seed", seed)...)
	return open(t, out)
}

// weightsOf returns the values of a model's replaceable weights.
func weightsOf(t *testing.T, m *rlx.Model) map[string]rlx.Tensor {
	t.Helper()
	out := map[string]rlx.Tensor{}
	for _, w := range m.Weights() {
		if w.Replaceable {
			b, err := m.WeightData(w.Name)
			if err != nil {
				t.Fatal(err)
			}
			out[w.Name] = rlx.Tensor{DType: w.DType, Shape: w.Shape, Data: b}
		}
	}
	return out
}

func randomTensor(t *testing.T, shape ...int) rlx.Tensor {
	rng, n := rand.New(rand.NewPCG(1, 2)), 1
	for _, d := range shape {
		n *= d
	}
	data := make([]float32, n)
	for i := range data {
		data[i] = rng.Float32()*2 - 1
	}
	return tensorOf(t, data, shape...)
}

// TestSetWeights replaces weights of a session by those of another artifact of the same graphs, and compares with a
// session of that artifact, bit for bit. Two runs come before, because the first run packs weights and the second one
// stores constant outputs.
func TestSetWeights(t *testing.T) {
	on := map[string]func(t *testing.T) rlx.Options{
		"mapped": func(*testing.T) rlx.Options { return rlx.Options{} },
		"bf16":   func(*testing.T) rlx.Options { return rlx.Options{Precision: "bf16"} },
		"chunks": func(t *testing.T) rlx.Options { t.Setenv("RLX_NO_SHM", "1"); return rlx.Options{} },
		"wgpu":   rlxtest.OnGPU,
	}
	for name, options := range on {
		t.Run(name, func(t *testing.T) {
			o := options(t)
			// s is folded in next, so its result y differs
			old := compileWeights(t, "1", "--mutable-weights", "[bs]")
			next := compileWeights(t, "2", "--mutable-weights", "b")
			s, want := session(t, old, o), session(t, next, o)
			x := randomTensor(t, 160, 64)
			row := rlx.Tensor{DType: rlx.F32, Shape: []int{64}, Data: x.Data[:256]}
			run := func(s *rlx.Session, check bool) []byte {
				t.Helper()
				in := map[string]rlx.Tensor{"x": x}
				f, err := s.Run(t.Context(), rlx.Request{Method: "f", Inputs: in, Check: check})
				if err != nil {
					t.Fatal(err)
				}
				g, err := s.Run(t.Context(), rlx.Request{Method: "g", Inputs: map[string]rlx.Tensor{"x": row}})
				if err != nil {
					t.Fatal(err)
				}
				return slices.Concat(f.Outputs["y"].Data, f.Outputs["n"].Data, g.Outputs["y"].Data)
			}
			runF := func(s *rlx.Session) []byte {
				t.Helper()
				f, err := s.Run(t.Context(), rlx.Request{Method: "f", Inputs: map[string]rlx.Tensor{"x": x}})
				if err != nil {
					t.Fatal(err)
				}
				return slices.Concat(f.Outputs["y"].Data, f.Outputs["n"].Data)
			}
			first := runF(s)
			runF(s)
			replaced := weightsOf(t, next)
			if err := s.SetWeights(t.Context(), replaced); err != nil {
				t.Fatal(err)
			}
			fixed := run(want, false)
			got := run(s, o.Precision == "") // loads g
			if bytes.Equal(got[:len(first)], first) {
				t.Error("the results are those of the old weights")
			}
			if !bytes.Equal(got[160*8*4:], fixed[160*8*4:]) {
				t.Error("outputs n and y of g are not those of the new weights")
			}
			again, err := rlx.NewTensor(make([]float32, 8), 8)
			if err == nil {
				err = s.SetWeights(t.Context(), map[string]rlx.Tensor{"s": again})
			}
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Equal(run(s, false)[:160*8*4], got[:160*8*4]) {
				t.Error("another s changes nothing")
			}
			if err := s.ResetWeights(t.Context(), "s"); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(run(s, false), got) {
				t.Error("after s is reset, the results are not those before")
			}
			if err := s.ResetWeights(t.Context()); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if !bytes.Equal(runF(s), first) {
					t.Error("after all weights are reset, the results are not those of the artifact")
				}
			}
		})
	}
}

// TestSetWeightsWhole compiles with all weights mutable, so that all results of both artifacts can be compared.
func TestSetWeightsWhole(t *testing.T) {
	old, next := compileWeights(t, "1", "--mutable-weights", "*"), compileWeights(t, "2", "--mutable-weights", "*")
	s, want := session(t, old, rlx.Options{}), session(t, next, rlx.Options{})
	r := rlx.Request{Method: "f", Inputs: map[string]rlx.Tensor{"x": randomTensor(t, 160, 64)}}
	result := func(s *rlx.Session) []byte {
		t.Helper()
		res, err := s.Run(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Concat(res.Outputs["y"].Data, res.Outputs["n"].Data)
	}
	before, after := result(s), result(want)
	values, original := weightsOf(t, next), weightsOf(t, old)
	if len(values) != 4 {
		t.Fatalf("%d weights can be replaced; want 4", len(values))
	}
	// Runs and replacements at the same time: each run has the weights of one artifact or the other.
	ctx, stop := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	for range 3 {
		wait.Go(func() {
			for ctx.Err() == nil {
				res, err := s.Run(t.Context(), r)
				if err != nil {
					t.Error(err)
					return
				}
				got := slices.Concat(res.Outputs["y"].Data, res.Outputs["n"].Data)
				if !bytes.Equal(got, before) && !bytes.Equal(got, after) {
					t.Error("a run has seen some old and some new weights")
					return
				}
			}
		})
	}
	for i := range 20 {
		set, expect := values, after
		if i%2 == 1 {
			set, expect = original, before
		}
		if err := s.SetWeights(t.Context(), set); err != nil {
			t.Error(err)
		}
		if got := result(s); !bytes.Equal(got, expect) {
			t.Error("a run after SetWeights has the old weights")
		}
	}
	stop()
	wait.Wait()
}

// TestSetWeightsRefused checks what SetWeights refuses. Nothing changes then.
func TestSetWeightsRefused(t *testing.T) {
	m := compileWeights(t, "1", "--mutable-weights", "b")
	s := session(t, m, rlx.Options{})
	good := weightsOf(t, m)
	for _, w := range m.Weights() {
		if w.Name == "s" {
			t.Error("s was folded and is still there")
		}
	}
	short := good["b"]
	short.Data = short.Data[4:]
	for what, c := range map[string]struct {
		name string
		t    rlx.Tensor
		err  error
	}{
		"unknown": {"nothing", good["b"], rlx.ErrInput},
		"folded":  {"s", randomTensor(t, 8), rlx.ErrInput},
		"shape":   {"w", randomTensor(t, 96, 64), rlx.ErrInput},
		"type":    {"h", randomTensor(t, 96, 8), rlx.ErrInput},
		"bytes":   {"b", short, rlx.ErrInput},
	} {
		err := s.SetWeights(t.Context(), map[string]rlx.Tensor{"b": randomTensor(t, 96), c.name: c.t})
		wantError(t, what, err, c.err)
	}
	for _, w := range m.Weights() {
		if !w.Replaceable {
			err := s.SetWeights(t.Context(), map[string]rlx.Tensor{w.Name: {DType: w.DType, Shape: w.Shape}})
			wantError(t, "constant "+w.Name, err, rlx.ErrFixedWeight)
		}
	}
	t.Setenv("RLX_OLD_FAULT", "old")
	older := session(t, m, rlx.Options{Backend: faultyBackend("old")})
	wantError(t, "old backend", older.SetWeights(t.Context(), good), rlx.ErrUnsupported)
	if err := older.Err(); err != nil {
		t.Error(err)
	}
	t.Setenv("RLX_SETS_FAULT", "fail")
	fails := session(t, m, rlx.Options{Backend: faultyBackend("sets")})
	if err := fails.Load(t.Context(), "f"); err != nil {
		t.Fatal(err)
	}
	wantError(t, "failing backend", fails.SetWeights(t.Context(), good), rlx.ErrMemory)
	in := map[string]rlx.Tensor{"x": randomTensor(t, 160, 64)}
	_, err := fails.Run(t.Context(), rlx.Request{Method: "f", Inputs: in})
	wantError(t, "run of undefined weights", err, rlx.ErrMemory)
	tight := session(t, m, rlx.Options{Memory: rlx.NewBudget(1)})
	wantError(t, "memory", tight.SetWeights(t.Context(), good), rlx.ErrMemory)
}
