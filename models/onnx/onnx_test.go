package onnx

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/models/onnx/onnxpb"
)

// TestModels runs models of testdata by the reference. Folders test_* are node tests of ONNX, whose outputs NumPy
// computed; those of dynamic_* were exported from PyTorch or written by bench/onnx/rows.py, and those of ml_* are
// linear models of scikit-learn, trees (bench/onnx/trees.py) or single nodes, computed by ONNX Runtime, at several
// sizes. A row of the result of ZipMap is what the maps have for a row.
func TestModels(t *testing.T) {
	models, err := filepath.Glob("testdata/*/model.onnx")
	if err != nil || len(models) < 19 {
		t.Fatal(len(models), err)
	}
	for _, path := range models {
		dir := filepath.Dir(path)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			sizes, err := filepath.Glob(filepath.Join(dir, "size*"))
			if err != nil {
				t.Fatal(err)
			}
			for _, data := range append(sizes, dir) {
				runModel(t, path, data)
			}
		})
	}
}

func runModel(t *testing.T, path, data string) {
	t.Helper()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in, want := readAll(t, data, "input"), readAll(t, data, "output")
	var o Options
	m, err := Import(f, o)
	if err != nil && strings.Contains(err.Error(), "not known before the model runs") {
		o.Values = map[string][]float64{}
		for name, a := range in {
			if len(a.Shape) <= 1 {
				for i := range a.Len() {
					o.Values[name] = append(o.Values[name], a.At(i))
				}
			}
		}
		m, err = Import(f, o)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Graph.Verify(); err != nil {
		t.Fatal(err)
	}
	inputs, syms := map[string]*tensor.Array{}, map[string]int64{}
	for _, n := range m.Graph.Inputs() {
		a := in[n.Name]
		inputs[n.Name] = a
		for i, d := range n.Type.Shape {
			if !d.IsStatic() {
				syms[d.String()] = int64(a.Shape[i])
			}
		}
	}
	out, err := interp.Run(m.Graph, syms, inputs, m.array)
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range m.Graph.Outputs {
		got, y := out[o.Name], want[fmt.Sprint(i)]
		if y == nil { // the number of rows of another output
			continue
		}
		if count := out[o.Name+"_count"]; count != nil {
			got = firstRows(got, int(count.At(0)), y.Shape)
		}
		if !slices.Equal(got.Shape, y.Shape) || got.DType != y.DType {
			t.Fatalf("%s: %s is %v%v, want %v%v", data, o.Name, got.DType, got.Shape, y.DType, y.Shape)
		}
		top := 0.0
		for k := range y.Len() {
			top = max(top, math.Abs(y.At(k)))
		}
		for k := range y.Len() {
			if d := math.Abs(got.At(k) - y.At(k)); !(d <= 1e-5*top) {
				t.Fatalf("%s: %s: element %d is %v, want %v", data, o.Name, k, got.At(k), y.At(k))
			}
		}
	}
}

// firstRows returns the first elements on the axis on which the array has another size than shape.
func firstRows(a *tensor.Array, count int, shape []int) *tensor.Array {
	for axis := range a.Shape {
		if len(shape) != len(a.Shape) || a.Shape[axis] == shape[axis] || count > a.Shape[axis] {
			continue
		}
		cut := slices.Clone(a.Shape)
		cut[axis] = count
		out := tensor.NewArray(a.DType, cut...)
		inner := tensor.Numel(a.Shape[axis+1:])
		for i := range out.Len() {
			row := i / (count * inner)
			from := row*a.Shape[axis]*inner + i%(count*inner)
			if out.Floats != nil {
				out.Floats[i] = a.Floats[from]
			} else {
				out.Ints[i] = a.Ints[from]
			}
		}
		return out
	}
	return a
}

// TestSmallestSize checks that a size is as large as the model needs, and that a range that is given and begins below
// it is refused.
func TestSmallestSize(t *testing.T) {
	f := openModel(t, "dynamic_shapes") // it reads the last three elements on axis time
	m, err := Import(f, Options{Sizes: map[string]Range{"batch": {1, 4}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range m.Sizes {
		if s.Name == "time" && (s.Range != Range{3, DefaultRange.Max} || s.Given) {
			t.Errorf("time is %+v; want 3 to %d", s, DefaultRange.Max)
		}
	}
	_, err = Import(f, Options{Sizes: map[string]Range{"time": {2, 9}}})
	var d *diag.Error
	if !errors.As(err, &d) || !strings.Contains(err.Error(), "--size time=3..9") {
		t.Errorf("a range from 2 on: %v", err)
	}
}

// TestPast checks which sizes begin at 0: the lengths of a past, whatever their names.
func TestPast(t *testing.T) {
	models, err := filepath.Glob("testdata/dynamic_*/model.onnx")
	if err != nil {
		t.Fatal(err)
	}
	empty := map[string]bool{"dynamic_past p": true, "dynamic_past q": true, "dynamic_past r": true,
		"dynamic_joined p_rows": true}
	for _, path := range models {
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		m, err := Import(f, Options{})
		if err != nil {
			t.Fatal(path, err)
		}
		for _, s := range m.Sizes {
			name := filepath.Base(filepath.Dir(path)) + " " + s.Name
			if want := empty[name]; (s.Min == 0) != want || s.Past != want {
				t.Errorf("%s is %+v; want an empty past: %v", name, s, want)
			}
			delete(empty, name)
		}
	}
	if len(empty) > 0 {
		t.Errorf("not found: %v", empty)
	}
	f := openModel(t, "dynamic_past")
	m, err := Import(f, Options{Sizes: map[string]Range{"r": {2, 9}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range m.Sizes {
		if s.Name == "r" && (s.Range != Range{2, 9} || s.Past) {
			t.Errorf("a range that is given became %+v", s)
		}
	}
}

// TestLargestSize checks that a range ends where the model's positions do, here those of a BERT with 24.
func TestLargestSize(t *testing.T) {
	f := openModel(t, "dynamic_bert")
	m, err := Import(f, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range m.Sizes {
		if want := map[string]Range{"seq": {1, 24}, "batch": DefaultRange}[s.Name]; s.Range != want {
			t.Errorf("%+v; want %v", s, want)
		}
	}
	_, err = Import(f, Options{Sizes: map[string]Range{"seq": {2, 99}}})
	typed(t, err, "give seq a range up to 24: --size seq=2..24")
}

// readAll reads the tensors of a folder: inputs by name, outputs by number.
func readAll(t *testing.T, dir, kind string) map[string]*tensor.Array {
	t.Helper()
	out := map[string]*tensor.Array{}
	for i := 0; ; i++ {
		b, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("%s_%d.pb", kind, i)))
		if errors.Is(err, os.ErrNotExist) {
			return out
		}
		var p onnxpb.TensorProto
		if err == nil {
			err = proto.Unmarshal(b, &p)
		}
		if err != nil {
			t.Fatal(err)
		}
		x, err := Tensor(&p)
		if err != nil {
			t.Fatal(err)
		}
		name := Name(p.GetName())
		if kind == "output" {
			name = fmt.Sprint(i)
		}
		out[name] = x.Array()
	}
}

// model returns a model with one node, an input x f32[2,3] and an output y.
func model(op string, attrs ...*onnxpb.AttributeProto) *onnxpb.ModelProto {
	value := func(name string) *onnxpb.ValueInfoProto {
		dim := func(n int64) *onnxpb.TensorShapeProto_Dimension {
			return &onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: n}}
		}
		return &onnxpb.ValueInfoProto{Name: &name, Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{
			TensorType: &onnxpb.TypeProto_Tensor{ElemType: proto.Int32(1),
				Shape: &onnxpb.TensorShapeProto{Dim: []*onnxpb.TensorShapeProto_Dimension{dim(2), dim(3)}}}}}}
	}
	return &onnxpb.ModelProto{IrVersion: proto.Int64(8),
		OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: proto.Int64(17)}},
		Graph: &onnxpb.GraphProto{Input: []*onnxpb.ValueInfoProto{value("x")},
			Output: []*onnxpb.ValueInfoProto{value("y")},
			Node: []*onnxpb.NodeProto{
				{Name: proto.String("n1"), OpType: &op, Input: []string{"x"}, Output: []string{"y"},
					Attribute: attrs}}}}
}

// openModel opens a model of testdata for as long as the test runs.
func openModel(t *testing.T, name string) *File {
	t.Helper()
	f, err := Open(filepath.Join("testdata", name, "model.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// importModel imports a model.
func importModel(t *testing.T, m *onnxpb.ModelProto, o Options) (*Model, error) {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Decode(filepath.Join(t.TempDir(), "m.onnx"), b)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Import(f, o)
}

func TestMain(m *testing.M) {
	testPanics = true
	os.Exit(m.Run())
}

// bounded returns a model that reads the elements of x that are not 0, squares them, and cuts them.
func bounded(starts, ends []int64) *onnxpb.ModelProto {
	m := model("NonZero")
	m.Graph.Node[0].Output = []string{"at"}
	node := func(op, out string, in ...string) {
		m.Graph.Node = append(m.Graph.Node, &onnxpb.NodeProto{OpType: &op, Input: in, Output: []string{out}})
	}
	node("Transpose", "t", "at")
	node("GatherND", "g", "x", "t")
	node("Mul", "s", "g", "g")
	node("Slice", "y", "s", "starts", "ends")
	for name, list := range map[string][]int64{"starts": starts, "ends": ends} {
		m.Graph.Initializer = append(m.Graph.Initializer, &onnxpb.TensorProto{Name: &name, Dims: []int64{1},
			DataType: proto.Int32(7), Int64Data: list})
	}
	m.Graph.Output[0].Type.GetTensorType().Shape = nil
	return m
}

// TestBounded checks nodes that read a result whose number of rows depends on the data.
func TestBounded(t *testing.T) {
	for _, c := range []struct {
		start, end, rows int64 // rows of the result, used or not
		want             []float64
	}{
		{0, 5, 5, []float64{1, 9, 16}}, {0, 2, 2, []float64{1, 9}},
		{1, 2, 6, []float64{9}}, {-2, 9, 6, []float64{9, 16}},
	} {
		m, err := importModel(t, bounded([]int64{c.start}, []int64{c.end}), Options{})
		if err != nil {
			t.Fatal(err)
		}
		x := tensor.NewArray(dtype.F32, 2, 3)
		copy(x.Floats, []float64{0, 1, 0, -3, 4, 0})
		out, err := interp.Run(m.Graph, nil, map[string]*tensor.Array{"x": x}, m.array)
		if err != nil {
			t.Fatal(err)
		}
		y := out["y"]
		count := len(c.want)
		if n := out["y_count"]; n == nil || n.At(0) != float64(count) || y.Shape[0] != int(c.rows) {
			t.Fatalf("y is %v, count %v; want %d of %d rows", y.Shape, n, count, c.rows)
		}
		if !slices.Equal(y.Floats[:count], c.want) {
			t.Errorf("y is %v, want %v", y.Floats, c.want)
		}
	}
}

// TestRowsMatch checks that a run ends with an error if the data give more or fewer rows than the model adds to.
func TestRowsMatch(t *testing.T) {
	p := bounded([]int64{0}, []int64{6})
	last := p.Graph.Node[len(p.Graph.Node)-1]
	last.OpType, last.Input = proto.String("Add"), []string{"s", "w"}
	p.Graph.Initializer = []*onnxpb.TensorProto{{Name: proto.String("w"), Dims: []int64{3}, DataType: proto.Int32(1),
		FloatData: []float32{10, 20, 30}}}
	m, err := importModel(t, p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		x    []float64
		want []float64 // nil if the run fails
	}{
		{[]float64{0, 1, 0, -3, 4, 0}, []float64{11, 29, 46}}, {[]float64{0, 0, 0, 2, 0, 0}, []float64{14, 24, 34}},
		{[]float64{0, 1, 0, -3, 0, 0}, nil}, {[]float64{5, 1, 0, -3, 4, 0}, nil}, {make([]float64, 6), nil},
	} {
		x := tensor.NewArray(dtype.F32, 2, 3)
		copy(x.Floats, c.x)
		out, err := interp.Run(m.Graph, nil, map[string]*tensor.Array{"x": x}, m.array)
		switch {
		case c.want == nil && (err == nil || !strings.Contains(err.Error(), "index -1")):
			t.Errorf("x is %v: error is %v; want one about the index -1", c.x, err)
		case c.want != nil && (err != nil || !slices.Equal(out["y"].Floats, c.want)):
			t.Errorf("x is %v: y is %v, error %v; want %v", c.x, out["y"], err, c.want)
		}
	}
}

// TestErrors checks that errors name the node and the fault.
func TestErrors(t *testing.T) {
	external := model("Relu")
	external.Graph.Initializer = []*onnxpb.TensorProto{
		{Name: proto.String("w"), Dims: []int64{2}, DataType: proto.Int32(1),
			DataLocation: onnxpb.TensorProto_EXTERNAL.Enum(),
			ExternalData: []*onnxpb.StringStringEntryProto{
				{Key: proto.String("location"), Value: proto.String("../secret")}}}}
	external.Graph.Node[0].OpType, external.Graph.Node[0].Input = proto.String("Add"), []string{"x", "w"}
	cyclic := model("Relu")
	cyclic.Graph.Node[0].Input = []string{"y"}
	metadata := model("Nonsense")
	metadata.Graph.Node[0].MetadataProps = []*onnxpb.StringStringEntryProto{
		{Key: proto.String("pkg.torch.onnx.name_scopes"), Value: proto.String("['', 'layer1', 'conv']")}}
	data := model("NonZero")
	data.Graph.Node[0].Output = []string{"at"}
	data.Graph.Node = append(data.Graph.Node,
		&onnxpb.NodeProto{OpType: proto.String("Unique"), Input: []string{"at"}, Output: []string{"y"}})
	recursive := model("F")
	recursive.Graph.Node[0].Domain = proto.String("local")
	recursive.Functions = []*onnxpb.FunctionProto{{Name: proto.String("F"), Domain: proto.String("local"),
		Input: []string{"a"}, Output: []string{"b"},
		Node: []*onnxpb.NodeProto{
			{OpType: proto.String("F"), Domain: proto.String("local"), Input: []string{"a"}, Output: []string{"b"}}}}}
	for _, c := range []struct {
		name string
		m    *onnxpb.ModelProto
		o    Options
		want string
	}{
		{"unknown op", model("Nonsense"), Options{}, "node n1 (Nonsense): is not supported: op Nonsense is unknown"},
		{"modules", metadata, Options{}, "node n1 (Nonsense) in layer1.conv"},
		{"refused op", model("SequenceMap"), Options{}, "it works on sequences"},
		{"sequence", model("SequenceConstruct"), Options{}, `output "y" is a sequence; want a tensor`},
		{"old opset", model("Gelu"), Options{}, ""},
		{"data", data, Options{}, `node number 1 (Unique): reads all of axis`},
		{"external", external, Options{},
			`external data is at "../secret"; allowed is a file in the folder of the model`},
		{"cyclic", cyclic, Options{}, `input "y" is not computed before it`},
		{"recursive", recursive, Options{}, "nested more than 64 deep"},
		{"axis", model("Softmax", &onnxpb.AttributeProto{Name: proto.String("axis"), I: proto.Int64(7)}), Options{},
			"node n1 (Softmax): axis is 7; the tensor has rank 2"},
		{"size", model("Relu"), Options{Sizes: map[string]Range{"b": {1, 2}}}, "--size b: the model has no such size"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := importModel(t, c.m, c.o)
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error is %v; want %q", err, c.want)
			}
			if known, _ := diag.CodeOf(err); known != code.GraphText && known != diag.Usage {
				t.Errorf("error %v has code %v", err, known)
			}
		})
	}
}

// TestWeights checks that models share tensors with equal bytes, whatever their names, and no others.
func TestWeights(t *testing.T) {
	with := func(name string, numbers ...float32) *onnxpb.ModelProto {
		m := model("Add")
		m.Graph.Node[0].Input = []string{"x", name}
		m.Graph.Initializer = []*onnxpb.TensorProto{
			{Name: &name, Dims: []int64{3}, DataType: proto.Int32(1), FloatData: numbers}}
		return m
	}
	w := NewWeights()
	var names []string
	for i, m := range []*onnxpb.ModelProto{with("a", 1, 2, 3), with("b", 1, 2, 3), with("a", 1, 2, 4)} {
		got, err := importModel(t, m, Options{Method: fmt.Sprint("m", i), Weights: w})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range got.Graph.Params() {
			names = append(names, n.Name)
		}
	}
	if want := []string{"a", "a", "a_2"}; !slices.Equal(names, want) {
		t.Errorf("params are %q; want %q", names, want)
	}
	for name, want := range map[string]float64{"a": 3, "a_2": 4} {
		p, err := w.Param(name)
		if err != nil || p.Array().At(2) != want {
			t.Errorf("%s is %v (%v)", name, p, err)
		}
	}
}

// FuzzImport checks that no file makes the import panic.
func FuzzImport(f *testing.F) {
	models, err := filepath.Glob("testdata/*/model.onnx")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range models {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		if len(b) < 1<<13 {
			f.Add(b)
		}
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := Decode(filepath.Join(dir, "m.onnx"), b)
		if err != nil {
			return
		}
		defer file.Close()
		m, err := Import(file, Options{})
		if err != nil {
			if _, ok := errors.AsType[*diag.Error](err); !ok {
				t.Fatalf("error without code: %v", err)
			}
			return
		}
		if err := m.Graph.Verify(); err != nil {
			t.Fatal(err)
		}
	})
}
