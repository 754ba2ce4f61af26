package onnx

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/models/onnx/onnxpb"
)

// within fails the test if f allocates more than that many MiB, or takes far longer than it should.
func within(t *testing.T, mib uint64, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	f()
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) >> 20; got > mib {
		t.Errorf("allocates %d MiB; want at most %d", got, mib)
	}
	if d := time.Since(start); d > time.Minute { // a bound on its growth, not a measurement
		t.Errorf("takes %v", d)
	}
}

// typed checks that an error has a code.
func typed(t *testing.T, err error, want string) {
	t.Helper()
	if _, ok := errors.AsType[*diag.Error](err); !ok || !strings.Contains(err.Error(), want) {
		t.Errorf("error is %v; want one with a code and %q", err, want)
	}
}

// TestManyNodes imports a chain of 100,000 nodes, and one whose nodes are not in their order.
func TestManyNodes(t *testing.T) {
	m := model("Neg")
	m.Graph.Node = nil
	last := "x"
	for i := range 100_000 {
		next := fmt.Sprint("v", i)
		m.Graph.Node = append(m.Graph.Node, &onnxpb.NodeProto{OpType: proto.String("Neg"), Input: []string{last},
			Output: []string{next}})
		last = next
	}
	m.Graph.Output[0].Name = &last
	within(t, 600, func() {
		got, err := importModel(t, m, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(got.Graph.Nodes); n < 100_000 {
			t.Errorf("has %d nodes", n)
		}
	})
	first := m.Graph.Node[0]
	first.Input = []string{last} // a cycle of all
	within(t, 600, func() {
		_, err := importModel(t, m, Options{})
		typed(t, err, "is not computed before it")
	})
}

// TestTooManyNodes checks that loops in loops end.
func TestTooManyNodes(t *testing.T) {
	m := model("Neg")
	trips := &onnxpb.TensorProto{Name: proto.String("n"), DataType: proto.Int32(int32(onnxpb.TensorProto_INT64)),
		Int64Data: []int64{1 << 40}}
	yes := &onnxpb.TensorProto{Name: proto.String("c"), DataType: proto.Int32(int32(onnxpb.TensorProto_BOOL)),
		Int32Data: []int32{1}}
	m.Graph.Initializer = []*onnxpb.TensorProto{trips, yes}
	info := func(name string) *onnxpb.ValueInfoProto { return &onnxpb.ValueInfoProto{Name: &name} }
	body := &onnxpb.GraphProto{Input: []*onnxpb.ValueInfoProto{info("i"), info("ci"), info("v")},
		Output: []*onnxpb.ValueInfoProto{info("ci"), info("w")},
		Node: []*onnxpb.NodeProto{
			{OpType: proto.String("Neg"), Input: []string{"v"}, Output: []string{"w"}}}}
	m.Graph.Node = []*onnxpb.NodeProto{{OpType: proto.String("Loop"), Input: []string{"n", "c", "x"},
		Output: []string{"y"}, Attribute: []*onnxpb.AttributeProto{{Name: proto.String("body"), G: body}}}}
	within(t, 2000, func() {
		_, err := importModel(t, m, Options{})
		typed(t, err, "has more than 262144 nodes")
	})
}

// TestDeepGraphs checks graphs in graphs, 60 deep, 100 deep and 1,000 deep.
func TestDeepGraphs(t *testing.T) {
	nested := func(depth int) []byte {
		yes := &onnxpb.TensorProto{Name: proto.String("c"), DataType: proto.Int32(int32(onnxpb.TensorProto_BOOL)),
			Int32Data: []int32{1}}
		name := "y0"
		node, err := proto.Marshal(&onnxpb.NodeProto{OpType: proto.String("Neg"), Input: []string{"x"},
			Output: []string{name}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range depth { // by hand, because protobuf does not marshal messages this deep, either
			out, err := proto.Marshal(&onnxpb.ValueInfoProto{Name: &name})
			if err != nil {
				t.Fatal(err)
			}
			graph := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), node)
			graph = protowire.AppendBytes(protowire.AppendTag(graph, 12, protowire.BytesType), out)
			attribute := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "then_branch")
			attribute = protowire.AppendBytes(protowire.AppendTag(attribute, 6, protowire.BytesType), graph)
			name = fmt.Sprint("y", i+1)
			if node, err = proto.Marshal(&onnxpb.NodeProto{OpType: proto.String("If"), Input: []string{"c"},
				Output: []string{name}}); err != nil {
				t.Fatal(err)
			}
			node = protowire.AppendBytes(protowire.AppendTag(node, 5, protowire.BytesType), attribute)
		}
		m := model("Neg")
		m.Graph.Initializer, m.Graph.Node = []*onnxpb.TensorProto{yes}, nil
		m.Graph.Output[0].Name = &name
		graph, err := proto.Marshal(m.Graph)
		if err != nil {
			t.Fatal(err)
		}
		graph = protowire.AppendBytes(protowire.AppendTag(graph, 1, protowire.BytesType), node)
		m.Graph = nil
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return protowire.AppendBytes(protowire.AppendTag(b, graphField, protowire.BytesType), graph)
	}
	for _, c := range []struct {
		depth int
		want  string
	}{{60, ""}, {70, "nested more than 64 deep"}, {1000, "is not an ONNX model"}} {
		within(t, 200, func() {
			f, err := Decode("m.onnx", nested(c.depth))
			if err == nil {
				_, err = Import(f, Options{})
			}
			if c.want != "" {
				typed(t, err, c.want)
			} else if err != nil {
				t.Errorf("%d deep: %v", c.depth, err)
			}
		})
	}
}

// TestSizes checks that tensors, ranges and images of huge sizes are refused or stay formulas.
func TestSizes(t *testing.T) {
	huge := func(list ...int64) *onnxpb.TensorProto {
		return &onnxpb.TensorProto{Name: proto.String("n"), Dims: []int64{int64(len(list))},
			DataType: proto.Int32(int32(onnxpb.TensorProto_INT64)), Int64Data: list}
	}
	scalar := func(v float32) *onnxpb.TensorProto {
		return &onnxpb.TensorProto{DataType: proto.Int32(1), FloatData: []float32{v}}
	}
	one := func(op string, inputs []string, tensors ...*onnxpb.TensorProto) *onnxpb.ModelProto {
		m := model(op)
		m.Graph.Initializer, m.Graph.Node[0].Input = tensors, inputs
		return m
	}
	empty := &onnxpb.TensorProto{Name: proto.String("n"), Dims: []int64{1 << 31}, DataType: proto.Int32(1)}
	lo, hi, by := scalar(0), scalar(1e30), scalar(1e-30)
	lo.Name, hi.Name, by.Name = proto.String("a"), proto.String("b"), proto.String("c")
	for name, m := range map[string]*onnxpb.ModelProto{
		"data":   one("Add", []string{"x", "n"}, empty),
		"range":  one("Range", []string{"a", "b", "c"}, lo, hi, by),
		"resize": one("Resize", []string{"x", "", "", "n"}, huge(1<<31, 1<<31)),
		"expand": one("Expand", []string{"x", "n"}, huge(1<<50, 2, 3)),
		"tile":   one("Tile", []string{"x", "n"}, huge(1<<40, 1<<40)),
		"fill":   one("ConstantOfShape", []string{"n"}, huge(1<<40, 1<<40, 1<<40)),
		"pad":    one("Pad", []string{"x", "n"}, huge(1<<50, 1<<50, 1<<50, 1<<50)),
	} {
		t.Run(name, func(t *testing.T) {
			within(t, 400, func() {
				_, err := importModel(t, m, Options{})
				typed(t, err, "")
			})
		})
	}
}

// TestMutated changes bytes of models and their tensors: an import ends, and errors have codes.
func TestMutated(t *testing.T) {
	models, err := filepath.Glob("testdata/test_*/model.onnx")
	if err != nil {
		t.Fatal(err)
	}
	rounds := 40
	if testing.Short() {
		rounds = 10
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, path := range models {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for range rounds {
			c := bytes.Clone(b)
			for range 1 + r.IntN(4) {
				switch at := r.IntN(len(c)); r.IntN(4) {
				case 0:
					c[at] ^= 1 << r.IntN(8)
				case 1:
					c[at] = byte(r.Uint32())
				case 2:
					c = append(c[:at], c[at+r.IntN(len(c)-at):]...)
				default:
					k := min(len(c), at+1+r.IntN(16))
					c = append(c[:k:k], append(bytes.Clone(c[at:k]), c[k:]...)...)
				}
				if len(c) == 0 {
					break
				}
			}
			within(t, 2000, func() {
				f, err := Decode(filepath.Join(t.TempDir(), "m.onnx"), c)
				if err == nil {
					_, err = Import(f, Options{})
				}
				if err != nil {
					typed(t, err, "")
				}
			})
		}
	}
}

// TestReadModel compares the reader with protobuf's own, also for fields that are in another order or several times.
func TestReadModel(t *testing.T) {
	models, err := filepath.Glob("testdata/*/model.onnx")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range models {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for k, text := range [][]byte{b, append(bytes.Clone(b), b...)} {
			var want onnxpb.ModelProto
			if err := proto.Unmarshal(text, &want); err != nil {
				t.Fatal(err)
			}
			got, inline, err := readModel(bytes.NewReader(text), int64(len(text)))
			if err != nil {
				t.Fatal(err)
			}
			for p, s := range inline {
				p.RawData = text[s.offset : s.offset+s.length]
			}
			if !proto.Equal(got, &want) {
				t.Errorf("%s %d: differs", path, k)
			}
		}
	}
}

// TestOrder imports nodes that come before those whose results they read, also from a graph inside of them.
func TestOrder(t *testing.T) {
	m := model("Neg")
	node := func(op, in, out string, attrs ...*onnxpb.AttributeProto) *onnxpb.NodeProto {
		p := &onnxpb.NodeProto{OpType: &op, Output: []string{out}, Attribute: attrs}
		if in != "" {
			p.Input = []string{in}
		}
		return p
	}
	branch := func(name string) *onnxpb.AttributeProto {
		out := "z"
		return &onnxpb.AttributeProto{Name: &name, G: &onnxpb.GraphProto{Name: &name,
			Node: []*onnxpb.NodeProto{node("Abs", "b", out)}, Output: []*onnxpb.ValueInfoProto{{Name: &out}}}}
	}
	choice := &onnxpb.AttributeProto{Name: proto.String("keepdims"), I: proto.Int64(0),
		Type: onnxpb.AttributeProto_INT.Enum()}
	m.Graph.Node = []*onnxpb.NodeProto{node("Neg", "d", "y"),
		node("If", "s", "d", branch("then_branch"), branch("else_branch")), node("Exp", "a", "b"),
		node("Neg", "x", "a"), node("IsNaN", "r", "s"), node("ReduceSum", "x", "r", choice)}
	got, err := importModel(t, m, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := got.Graph.Verify(); err != nil {
		t.Fatal(err)
	}
	m.Graph.Node[3].Input[0] = "y"
	_, err = importModel(t, m, Options{})
	typed(t, err, "is not computed before it")
}

// TestProducer imports a model whose producer is a paragraph.
func TestProducer(t *testing.T) {
	m := model("Neg")
	m.ProducerName = proto.String("Cat")
	m.ProducerVersion = proto.String("Git:\n\tcommit \x1b[1m 1\u00a0" + strings.Repeat("é", 300))
	got, err := importModel(t, m, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if want := "Cat Git: commit [1m 1 é"; !strings.HasPrefix(got.Producer, want) || len([]rune(got.Producer)) != 200 {
		t.Errorf("producer is %q; want 200 characters that begin with %q", got.Producer, want)
	}
}
