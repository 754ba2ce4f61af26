package onnx

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/models/onnx/onnxpb"
)

// graphOf returns a model of x f32[2,3] with lines "OP INPUTS -> OUTPUT" as its nodes. A name of digits is the integer.
func graphOf(lines ...string) *onnxpb.ModelProto {
	m := model("Relu")
	m.Graph.Node = nil
	for _, line := range lines {
		f := strings.Fields(line)
		name, in, out := f[0], f[1:slices.Index(f, "->")], f[len(f)-1]
		for _, x := range in {
			named := func(p *onnxpb.TensorProto) bool { return p.GetName() == x }
			known := slices.ContainsFunc(m.Graph.Initializer, named)
			if v := strings.TrimPrefix(x, "-"); v[0] <= '9' && !known {
				value := int64(v[0] - '0')
				if x != v {
					value = -value
				}
				m.Graph.Initializer = append(m.Graph.Initializer,
					&onnxpb.TensorProto{Name: &x, DataType: proto.Int32(7), Int64Data: []int64{value}})
			}
		}
		name, attrs, _ := strings.Cut(name, ":")
		n := &onnxpb.NodeProto{OpType: &name, Input: in, Output: []string{out}}
		for _, a := range strings.FieldsFunc(attrs, func(r rune) bool { return r == ',' }) {
			key, v, _ := strings.Cut(a, "=")
			n.Attribute = append(n.Attribute, intAttr(key, int64(v[0]-'0')))
		}
		m.Graph.Node = append(m.Graph.Node, n)
	}
	return m
}

// sequenceModels has a model for each op of sequences, whose last node is of the op.
func sequenceModels() []*onnxpb.ModelProto {
	return []*onnxpb.ModelProto{
		graphOf("SequenceEmpty -> y"),
		graphOf("SequenceConstruct x x -> y"),
		graphOf("SequenceConstruct x x -> s", "SequenceInsert s x 1 -> y"),
		graphOf("SequenceConstruct x x -> s", "SequenceErase s 1 -> y"),
		graphOf("SequenceConstruct x x -> s", "SequenceAt s 1 -> y"),
		graphOf("SequenceConstruct x x -> s", "SequenceLength s -> y"),
		graphOf("SplitToSequence:axis=1 x 2 -> y"),
		graphOf("SequenceConstruct x x -> s", "ConcatFromSequence:axis=1 s -> y"),
	}
}

// computed returns the output y of a model for an x f32[2,3] whose elements count from 0.
func computed(t *testing.T, p *onnxpb.ModelProto) *tensor.Array {
	t.Helper()
	m, err := importModel(t, p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	x := tensor.NewArray(dtype.F32, 2, 3)
	for i := range x.Floats {
		x.Floats[i] = float64(i)
	}
	out, err := interp.Run(m.Graph, nil, map[string]*tensor.Array{"x": x}, m.array)
	if err != nil {
		t.Fatal(err)
	}
	return out["y"]
}

// TestSequences runs models whose sequences the import knows.
func TestSequences(t *testing.T) {
	loop := graphOf("SequenceEmpty -> none", "Loop 3  none -> s", "ConcatFromSequence:axis=0,new_axis=1 s -> y")
	info := func(name string) *onnxpb.ValueInfoProto { return &onnxpb.ValueInfoProto{Name: &name} }
	body := graphOf("Cast:to=1 i -> f", "Mul x f -> v", "SequenceInsert in v -> out").Graph
	body.Input, body.Output = []*onnxpb.ValueInfoProto{info("i"), info("go"), info("in")},
		[]*onnxpb.ValueInfoProto{info("go"), info("out")}
	loop.Graph.Node[1].Input = []string{"3", "", "none"} // the loop of an embedding bag: a tensor for each iteration
	loop.Graph.Node[1].Attribute = []*onnxpb.AttributeProto{{Name: proto.String("body"), G: body}}
	for _, c := range []struct {
		name  string
		m     *onnxpb.ModelProto
		shape []int
		want  []float64
	}{
		{"parts", graphOf("SplitToSequence:axis=1 x 2 -> s", "SequenceAt s 0 -> a", "SequenceInsert s a -> t",
			"SequenceErase t 0 -> u", "ConcatFromSequence:axis=1 u -> y"), []int{2, 3}, []float64{2, 0, 1, 5, 3, 4}},
		{"each", graphOf("SplitToSequence:axis=1,keepdims=0 x -> s", "SequenceErase s 0 -> t",
			"ConcatFromSequence:axis=0,new_axis=1 t -> y"), []int{2, 2}, []float64{1, 4, 2, 5}},
		{"place", graphOf("Neg x -> n", "SequenceConstruct x x -> s", "SequenceInsert s n -2 -> t", "Identity t -> u",
			"SequenceAt u 0 -> y"), []int{2, 3}, []float64{0, -1, -2, -3, -4, -5}},
		{"length", graphOf("SequenceConstruct x x -> s", "SequenceLength s -> n", "Cast:to=1 n -> f", "Mul x f -> y"),
			[]int{2, 3}, []float64{0, 2, 4, 6, 8, 10}},
		{"loop", loop, []int{3, 2, 3}, []float64{0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 0, 2, 4, 6, 8, 10}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if y := computed(t, c.m); !slices.Equal(y.Shape, c.shape) || !slices.Equal(y.Floats, c.want) {
				t.Errorf("y is %v %v; want %v %v", y.Shape, y.Floats, c.shape, c.want)
			}
		})
	}
}

// TestSequenceErrors checks what is refused.
func TestSequenceErrors(t *testing.T) {
	open := graphOf("SplitToSequence x -> s", "ConcatFromSequence:axis=0 s -> y")
	open.Graph.Input[0].Type.GetTensorType().Shape.Dim[0] = &onnxpb.TensorShapeProto_Dimension{
		Value: &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: "n"}}
	for _, c := range []struct {
		m    *onnxpb.ModelProto
		want string
	}{
		{graphOf("SequenceConstruct x -> s", "Neg s -> y"), "(Neg): input 0 (s) is a sequence; want a tensor"},
		{graphOf("SequenceAt x 0 -> y"), "(SequenceAt): input 0 is missing, or a tensor; want a sequence"},
		{graphOf("SequenceEmpty -> s", "SequenceAt s 0 -> y"), "input 1 (0) is position 0 of a sequence of 0"},
		{graphOf("SequenceEmpty -> s", "ConcatFromSequence:axis=0 s -> y"), "input 0 is an empty sequence"},
		{graphOf("SequenceConstruct x -> s", "SequenceConstruct s -> y"), "(SequenceConstruct): input 0 (s) is a sequence; want a tensor"},
		{open, "axis 0 of its input has an open size, so the number of tensors is not known"},
	} {
		_, err := importModel(t, c.m, Options{})
		typed(t, err, c.want)
	}
}
