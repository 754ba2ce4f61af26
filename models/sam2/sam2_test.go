package sam2

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/modeltest"
	"github.com/rlx-go/rlx/internal/tensortest"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/nn"
	"github.com/rlx-go/rlx/models/weights"
	"github.com/rlx-go/rlx/plugins/cpu/backend"
)

const goldens = "../../testdata/goldens/"

var cases = []string{"sam2_tiny", "sam2_odd"}

// open synthesises the checkpoint of a golden case.
func open(t *testing.T, name string) (weights.Stored, modeltest.SAM) {
	t.Helper()
	return modeltest.Open(t, modeltest.Manifest(t, goldens+name), dtype.F32), modeltest.OpenSAM2(t, goldens+name)
}

// configOf reads the configuration of a golden case.
func configOf(t *testing.T, s weights.Stored, c modeltest.SAM) (*nn.Weights, config) {
	t.Helper()
	var cfg arch.Config
	if err := cfg.Load(c.Config); err != nil {
		t.Fatal(err)
	}
	n := namingOf(s)
	w := nn.NewWeights(s, n.rename)
	sizes, err := readConfig(w, n, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return w, sizes
}

// params returns the tensors of a checkpoint by our names.
func params(s weights.Stored) func(name string) (*tensor.Array, error) {
	n := namingOf(s)
	return func(name string) (*tensor.Array, error) {
		for _, source := range n.rename(name) {
			if _, ok := s.Type(source); ok {
				return modeltest.Param(s, source)
			}
		}
		return nil, fmt.Errorf("no tensor %s", name)
	}
}

// image returns the inputs of encode.
func image(c modeltest.SAM) map[string]*tensor.Array {
	return map[string]*tensor.Array{"image": c.Image}
}

// TestStages compares the results of every stage of the backbone and of every level of the neck.
func TestStages(t *testing.T) {
	for _, name := range cases {
		s, c := open(t, name)
		w, sizes := configOf(t, s, c)
		g, err := w.Graph("stages", nil, func(root nn.Scope) {
			x := op.Input(root.Graph, "image", ir.TypeOf(dtype.F32, 1, 3, sizes.ImageSize, sizes.ImageSize))
			stages := backbone(sizes, root.At("image_encoder.trunk"), x, len(sizes.stages))
			for i, x := range stages {
				root.Graph.Return(fmt.Sprint("stage", i), x)
			}
			for i, x := range neck(sizes, root.At("image_encoder.neck.convs"), stages[:sizes.top+1])[:3] {
				root.Graph.Return(fmt.Sprint("level", i), x)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		out, err := interp.Run(g, nil, image(c), params(s))
		if err != nil {
			t.Fatal(err)
		}
		if len(out) != 7 {
			t.Errorf("%s: %d results; want 4 stages and 3 levels", name, len(out))
		}
		for result, x := range out {
			var want *tensor.Array
			if strings.HasPrefix(result, "level") {
				want = c.ChannelsLast(t, result)
			} else {
				want = tensortest.Golden(t, goldens+name+"/golden.safetensors:"+result)
			}
			tensortest.Near(t, name+" "+result, x, want, 1e-5)
		}
	}
}

// method returns a method of a model.
func method(t *testing.T, m *arch.Model, name string) *ir.Graph {
	t.Helper()
	i := slices.IndexFunc(m.Methods, func(g *ir.Graph) bool { return g.Name == name })
	if i < 0 {
		t.Fatalf("no method %s", name)
	}
	return m.Methods[i]
}

// set returns the values as for --set of a prompt.
func set(p modeltest.SAMPrompt) []string {
	if p.Delta == 0 {
		return nil
	}
	return []string{fmt.Sprint(keyDelta, "=", p.Delta)}
}

// inputs returns the inputs of a prompt, with what is known about the image.
func inputs(t *testing.T, c modeltest.SAM, p modeltest.SAMPrompt) map[string]*tensor.Array {
	in := c.Features(t)
	maps.Copy(in, p.Inputs)
	return in
}

// TestGolden compares the methods, run by the reference evaluation, with Transformers: points, boxes, both, a mask, and
// the choice by stability.
func TestGolden(t *testing.T) {
	for _, name := range cases {
		s, c := open(t, name)
		m := modeltest.Build(t, s, c.Config)
		out, err := interp.Run(method(t, m, "encode"), nil, image(c), params(s))
		if err != nil {
			t.Fatal(err)
		}
		want := c.Features(t)
		if len(out) != len(want) {
			t.Errorf("%s: encode gives %d results; want %d", name, len(out), len(want))
		}
		for result, x := range want {
			tensortest.Near(t, name+" "+result, out[result], x, 1e-5)
		}
		for _, p := range c.Prompts {
			m := modeltest.Build(t, s, c.Config, set(p)...)
			out, err := interp.Run(method(t, m, "decode"), map[string]int64{"N": int64(p.Points)}, inputs(t, c, p),
				params(s))
			if err != nil {
				t.Fatal(err)
			}
			p.Check(t, out, 2e-5)
			tensortest.Near(t, name+" "+p.Name+" object", out["object_score"],
				tensortest.Golden(t, goldens+name+"/golden.safetensors:"+p.Name+".object_score"), 2e-5)
		}
	}
}

// TestTargets compares the compiled methods with Transformers, on every target of the cpu backend.
func TestTargets(t *testing.T) {
	for _, name := range cases {
		s, c := open(t, name)
		compiled := modeltest.Compile(t, modeltest.Build(t, s, c.Config), s)
		for _, target := range modeltest.Targets() {
			run := func(method string, syms map[string]int64, in map[string]*tensor.Array) map[string]*tensor.Array {
				p := compiled.Find(t, method, target.Name)
				x, err := backend.Backend{}.Load(
					t.Context(), device.Load{Program: p, Weights: compiled.Weights, Threads: 2})
				if err != nil {
					t.Fatal(err)
				}
				defer x.Close()
				return devicetest.Once(t, x, p, syms, in)
			}
			out, want := run("encode", nil, image(c)), c.Features(t)
			for result, x := range want {
				tensortest.Near(t, name+" "+result+" on "+target.Name, out[result], x, 1e-5)
			}
			for _, p := range c.Prompts {
				if p.Delta != 0 {
					continue
				}
				out := run("decode", map[string]int64{"N": int64(p.Points)}, inputs(t, c, p))
				p.Check(t, out, 2e-5)
				if p.Name != "point" {
					continue
				}
				// The same prompt twice in one run.
				in := inputs(t, c, p)
				delete(in, "mask")
				for _, x := range []string{"points", "labels"} {
					one := in[x]
					in[x] = &tensor.Array{DType: one.DType, Shape: append([]int{2}, one.Shape[1:]...),
						Floats: slices.Concat(one.Floats, one.Floats), Ints: slices.Concat(one.Ints, one.Ints)}
				}
				for result, x := range run("decode_batch", map[string]int64{"N": int64(p.Points), "P": 2}, in) {
					for i := range 2 {
						own := &tensor.Array{DType: x.DType, Shape: out[result].Shape,
							Floats: x.Floats[i*x.Len()/2:][:x.Len()/2]}
						tensortest.Near(t, result+" of two on "+target.Name, own, out[result], 1e-5)
					}
				}
			}
		}
	}
}
