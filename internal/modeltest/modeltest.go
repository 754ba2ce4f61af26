// Package modeltest takes golden models from their manifests to compiled programs, within one process. Only tests
// import it.
package modeltest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/compile"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/synth"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/weights"
)

// Open synthesises a checkpoint from the given tensors and opens it for the duration of the test.
func Open(t testing.TB, es []synth.Entry, d dtype.DType) weights.Stored {
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
	return weights.Stored{Checkpoint: c}
}

// Manifest reads the manifest of the golden case in a folder.
func Manifest(t testing.TB, dir string) []synth.Entry {
	t.Helper()
	es, err := synth.ReadManifest(filepath.Join(dir, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	return es
}

// Build recognises a checkpoint and builds its model. config is a config.json, or ""; set has values as for --set.
func Build(t testing.TB, s weights.Stored, config string, set ...string) *arch.Model {
	t.Helper()
	m, err := TryBuild(s, config, set...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TryBuild is Build for models that may be invalid.
func TryBuild(s weights.Stored, config string, set ...string) (*arch.Model, error) {
	var cfg arch.Config
	if _, err := os.Stat(config); config != "" && err == nil {
		if err := cfg.Load(config); err != nil {
			return nil, err
		}
	}
	kind, _, err := cfg.String("model_type")
	if err != nil {
		return nil, err
	}
	a, err := arch.Find("auto", s, s.Path(), kind)
	if err != nil {
		return nil, err
	}
	for _, v := range set {
		if err := cfg.Set(v, a.Keys); err != nil {
			return nil, err
		}
	}
	return a.Build(s, cfg)
}

// Param reads a tensor of a checkpoint in the type in which it is stored.
func Param(s weights.Stored, name string) (*tensor.Array, error) {
	t, ok := s.Type(name)
	if !ok {
		return nil, fmt.Errorf("no tensor %s", name)
	}
	b, err := s.Bytes(name, t.DType)
	return tensor.Tensor{DType: t.DType, Shape: t.Shape.Eval(nil), Data: b}.Array(), err
}

type params struct {
	weights.Stored
	source map[string]string
}

func (p params) Param(name string) (*tensor.Array, error) { return Param(p.Stored, p.source[name]) }

// Compiled is a model compiled for all targets, with its weights as in an artifact.
type Compiled struct {
	*compile.Result
	Weights []byte
}

// Targets returns the built-in targets but metal and cuda, whose programs equal those of wgpu.
func Targets() []compile.Target {
	var out []compile.Target
	for _, d := range target.Builtin() {
		if !target.AsWGPU(d) {
			out = append(out, compile.Target{Name: d.Name, Takes: d})
		}
	}
	return out
}

// Compile compiles a model for the given targets, or for all built-in targets if targets is empty.
func Compile(t testing.TB, m *arch.Model, s weights.Stored, targets ...compile.Target) Compiled {
	t.Helper()
	if len(targets) == 0 {
		targets = Targets()
	}
	p := params{s, map[string]string{}}
	for _, x := range m.Params {
		p.source[x.Name] = x.Source
	}
	r, err := compile.Compile(context.Background(), m.Methods, compile.Options{
		Targets: targets, Params: p,
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
	out := Compiled{r, tensor.AlignedBytes(int(r.WeightsSize))}
	for _, w := range r.Weights {
		data := w.Data
		if data == nil {
			if data, err = s.Bytes(p.source[w.Name], w.Type.DType); err != nil {
				t.Fatal(err)
			}
		}
		copy(out.Weights[w.Offset:], data)
	}
	return out
}

// Find returns the program of a method for a target.
func (c Compiled) Find(t testing.TB, method, target string) *program.Program {
	t.Helper()
	i := slices.IndexFunc(c.Programs, func(p *program.Program) bool { return p.Method == method && p.Target == target })
	if i < 0 {
		t.Fatalf("no program %s for %s", method, target)
	}
	return c.Programs[i]
}
