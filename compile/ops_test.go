package compile_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rlx-go/rlx/compile"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/onnx/onnxpb"
)

const (
	waveOp = `op acme.wave
attr alpha = 0.5
replaces expansion

graph expansion
sym N = 0..4096
x = input : f32[N]
a = const {value=$alpha} : f32[]
s = sin x : f32[N]
y = mul s, a : f32[N]
return y=y
`
	waveTarget = `target npu 1
types f32
run custom(f32) if name = "acme.wave"
run neg(f32)
`
	named = `graph f
sym N = 1..8
x = input : f32[N]
y = acme.wave x {alpha=2} : f32[N]
z = neg y : f32[N]
return z=z
`
	unnamed = `graph f
sym N = 1..8
x = input : f32[N]
a = const {value=2.0} : f32[]
s = sin x : f32[N]
y = mul a, s : f32[N]
z = neg y : f32[N]
return z=z
`
)

// TestOps compiles a graph that names a custom op, and one with the nodes of its pattern, for a target that claims the
// op and for one that does not. Definitions in a file and in a text give the same bytes.
func TestOps(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{"wave.rlxop": waveOp, "npu.target": waveTarget, "named.txt": named,
		"unnamed.txt": unnamed, "bad.rlxop": "op acme.wave\n"} {
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	targets := []string{"cpu", path("npu.target")}
	for _, name := range []string{"named", "unnamed"} {
		var files [2][]byte
		for i, o := range []compile.Options{{Ops: []string{path("wave.rlxop")}}, {Definitions: []string{waveOp}}} {
			o.Output, o.Targets = path("out.rlx"), targets
			m, err := compile.Load(t.Context(), path(name+".txt"), o)
			if err != nil {
				t.Fatal(err)
			}
			r, err := m.Compile(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if skipped, err := r.Check(t.Context()); err != nil || len(skipped) > 0 && name == "named" {
				t.Errorf("%s: check: %v, skipped %v", name, err, skipped)
			}
			if err := r.Write(t.Context(), o.Output, nil); err != nil {
				t.Fatal(err)
			}
			for _, p := range r.Programs {
				steps := p.Split.Segments[0].Program.Steps
				first := p.Split.Segments[0].Program.Graph.Nodes[steps[0].Node]
				if claimed := p.Target == "npu"; claimed != (first.Op == op.CustomDef) {
					t.Errorf("%s for %s: the first step is %v", name, p.Target, first)
				}
			}
			m.Close()
			if files[i], err = os.ReadFile(o.Output); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(files[0], files[1]) {
			t.Errorf("%s: definitions in a file and in a text give different artifacts", name)
		}
	}
	for _, c := range []struct {
		o    compile.Options
		code error
		want string
	}{
		{compile.Options{}, code.UnknownOp, `named.txt: line 4: y: op "acme.wave": is not an op of RLX, and no definition`},
		{compile.Options{Ops: []string{path("none.rlxop")}}, code.OpFile, "none.rlxop: cannot be read"},
		{compile.Options{Ops: []string{path("bad.rlxop")}}, code.OpFile,
			"bad.rlxop: op acme.wave: line 1: has no expansion"},
		{compile.Options{Definitions: []string{waveOp, waveOp}}, code.OpFile,
			"definition 2: line 1: op acme.wave is defined in definition 1 already"},
	} {
		c.o.Output = path("none.rlx")
		_, err := compile.Checkpoint(t.Context(), path("named.txt"), c.o)
		if !errors.Is(err, c.code) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v; want %q", c.o, err, c.want)
		}
	}
}

// TestOpsOfONNX compiles an ONNX model with a node of a vendor's domain, which a definition gives a meaning, for a
// target that claims the op and for one that does not.
func TestOpsOfONNX(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	value := func(name string) *onnxpb.ValueInfoProto {
		return &onnxpb.ValueInfoProto{Name: &name, Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{
			TensorType: &onnxpb.TypeProto_Tensor{ElemType: proto.Int32(1), Shape: &onnxpb.TensorShapeProto{
				Dim: []*onnxpb.TensorShapeProto_Dimension{{}}}}}}}
	}
	model, err := proto.Marshal(&onnxpb.ModelProto{IrVersion: proto.Int64(8),
		OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: proto.Int64(17)},
			{Domain: proto.String("acme"), Version: proto.Int64(1)}},
		Graph: &onnxpb.GraphProto{Input: []*onnxpb.ValueInfoProto{value("x")},
			Output: []*onnxpb.ValueInfoProto{value("y")},
			Node: []*onnxpb.NodeProto{{OpType: proto.String("Wave"), Domain: proto.String("acme"),
				Input: []string{"x"}, Output: []string{"y"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"m.onnx": string(model), "wave.rlxop": waveOp, "npu.target": waveTarget}
	for name, text := range files {
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m, err := compile.Load(t.Context(), path("m.onnx"), compile.Options{Ops: []string{path("wave.rlxop")},
		Targets: []string{"cpu", path("npu.target")}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	r, err := m.Compile(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if skipped, err := r.Check(t.Context()); err != nil || len(skipped) > 0 {
		t.Errorf("check: %v, skipped %v", err, skipped)
	}
	for _, p := range r.Programs {
		steps := p.Split.Segments[0].Program.Steps
		first := p.Split.Segments[0].Program.Graph.Nodes[steps[0].Node]
		if claimed := p.Target == "npu"; claimed != (first.Op == op.CustomDef) {
			t.Errorf("for %s the first step is %v", p.Target, first)
		}
	}
}
