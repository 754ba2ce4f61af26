package compile_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/compile"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
)

const demo = "../demo/sam-nano.safetensors"

// TestErrors checks that each option that is wrong is an error that names it, before anything is written.
func TestErrors(t *testing.T) {
	dir := t.TempDir()
	graph := filepath.Join(dir, "g.txt")
	if err := os.WriteFile(graph, []byte("graph f\nx = input : f32[2]\ny = neg x : f32[2]\nreturn y=y\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		o    compile.Options
		code diag.Code
		want string
	}{
		{demo, compile.Options{DType: "f8"}, diag.Usage, `--dtype: "f8" is unknown; allowed are keep, f32, f16, bf16`},
		{demo, compile.Options{Quantize: "q1"}, diag.Usage, `--quantize: "q1" is unknown; allowed are none, `},
		{demo, compile.Options{Quantize: "q8_0"}, diag.Usage, "architecture sam is not a language model"},
		{demo, compile.Options{Activations: "q4"}, diag.Usage, `--activations: "q4" is unknown; allowed are f32, q8`},
		{demo, compile.Options{StopAfter: "nothing"}, diag.Usage, `--stop-after: "nothing" is unknown`},
		{demo, compile.Options{Precisions: []string{"f8"}}, diag.Usage,
			`--precision: "f8" is unknown; allowed are f32, bf16, f16`},
		{demo, compile.Options{Targets: []string{"npu"}}, code.Target, `"npu" is unknown; known are cpu`},
		{demo, compile.Options{Targets: []string{"absent.target"}}, code.TargetFile, "absent.target"},
		{demo, compile.Options{Arch: "resnet"}, diag.Usage, `--arch: unknown architecture "resnet"`},
		{demo, compile.Options{Set: []string{"x=1"}}, diag.Usage, `--set: unknown key "x"`},
		{demo, compile.Options{Batch: -1}, diag.Usage, "--batch: is -1; allowed are 1 and more"},
		{demo, compile.Options{Context: 7}, diag.Usage, "--context: architecture sam has no context"},
		{demo, compile.Options{Config: filepath.Join(dir, "none.json")}, code.ModelConfig, "none.json"},
		{demo, compile.Options{Weights: demo}, diag.Usage, "--weights: applies to graphs in text form only"},
		{graph, compile.Options{DType: "f16"}, diag.Usage, "--dtype: applies to checkpoints only"},
		{graph, compile.Options{Arch: "auto"}, diag.Usage, "--arch: applies to checkpoints only"},
		{graph, compile.Options{Memory: 10}, device.ErrMemory, "--memory allows 10 B"},
		{filepath.Join(dir, "absent.safetensors"), compile.Options{}, code.CheckpointRead, "absent.safetensors"},
	} {
		c.o.Output = filepath.Join(dir, "x.rlx")
		_, err := compile.Checkpoint(t.Context(), c.path, c.o)
		if !errors.Is(err, c.code) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %+v: %v; want %s with %s", c.path, c.o, err, c.code, c.want)
		}
		if _, err := os.Stat(c.o.Output); err == nil {
			t.Fatalf("%s with %+v: wrote the artifact", c.path, c.o)
		}
	}
}

// TestInput checks that no input becomes the artifact.
func TestInput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "g.txt")
	text := "graph f\nx = input : f32[2]\ny = neg x : f32[2]\nreturn y=y\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := compile.Checkpoint(t.Context(), path, compile.Options{Output: path})
	if !errors.Is(err, diag.Usage) || !strings.Contains(err.Error(), "which would be lost") {
		t.Error(err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != text {
		t.Errorf("the input is now %q, %v", b, err)
	}
}

// TestSteps checks the steps of Checkpoint one by one: what they report, that Write can be called again, and that a
// context that has ended ends each.
func TestSteps(t *testing.T) {
	phases := map[string]bool{}
	m, err := compile.Load(t.Context(), demo, compile.Options{
		Targets: []string{"cpu"}, Dump: func(_, _, phase string, _ *ir.Graph) { phases[phase] = true },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if m.Name != "sam-nano" || m.Arch != "sam" || len(m.Facts) == 0 || len(m.Files) == 0 {
		t.Errorf("%+v", m)
	}
	if gaps, err := m.Gaps(t.Context()); err != nil || len(gaps) != 1 || !gaps[0].Empty() {
		t.Errorf("%+v, %v", gaps, err)
	}
	r, err := m.Compile(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Programs) != len(r.Reports) || r.Programs[0].Steps == 0 || r.Programs[0].Reuse <= 1 {
		t.Errorf("%+v", r.Programs)
	}
	if !phases["in"] || !phases["lower"] {
		t.Errorf("dumps of %v", phases)
	}
	var first []byte
	for range 2 {
		var last int64
		path := filepath.Join(t.TempDir(), "x.rlx")
		if err := r.Write(t.Context(), path, func(written int64) { last = written }); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = b
		}
		if !bytes.Equal(b, first) || r.Size != int64(len(b)) || r.Path != path || last == 0 || last > r.WeightsBytes {
			t.Errorf("%d bytes, %d of weights: %+v", len(b), last, r)
		}
	}
	ended, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	_, loaded := compile.Load(ended, demo, compile.Options{})
	_, compiled := m.Compile(ended)
	if !errors.Is(loaded, why) || !errors.Is(compiled, why) {
		t.Errorf("a context that has ended: %v, %v", loaded, compiled)
	}
	if err := r.Write(ended, filepath.Join(t.TempDir(), "x.rlx"), nil); err == nil {
		t.Error("a context that has ended: the artifact is written")
	}
}
