package onnx

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rlx-go/rlx/models/onnx/onnxpb"
)

// TestBranches checks the sizes that If needs, and its errors. The numbers are those of dynamic_joined.
func TestBranches(t *testing.T) {
	f := openModel(t, "dynamic_joined")
	m, err := Import(f, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range m.Sizes {
		if want := map[string]int64{"x_rows": 2, "p_rows": 0}[s.Name]; s.Min != want {
			t.Errorf("%+v; want it from %d on", s, want)
		}
	}
	_, err = Import(f, Options{Sizes: map[string]Range{"x_rows": {1, 9}}})
	typed(t, err, "want the same type, or a condition that is known before the model runs; give x_rows a range from 2 on: "+
		"--size x_rows=2..9")

	branch := func(name, op string) *onnxpb.AttributeProto {
		return &onnxpb.AttributeProto{Name: &name, Type: onnxpb.AttributeProto_GRAPH.Enum(), G: &onnxpb.GraphProto{
			Node:   []*onnxpb.NodeProto{{OpType: &op, Input: []string{"x"}, Output: []string{"z"}}},
			Output: []*onnxpb.ValueInfoProto{{Name: proto.String("z")}}}}
	}
	p := model("If", branch("then_branch", "Relu"), branch("else_branch", "Shape"))
	p.Graph.Input = append(p.Graph.Input, &onnxpb.ValueInfoProto{Name: proto.String("flag"),
		Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{TensorType: &onnxpb.TypeProto_Tensor{
			ElemType: proto.Int32(9), Shape: &onnxpb.TensorShapeProto{}}}}})
	p.Graph.Node[0].Input = []string{"flag"}
	_, err = importModel(t, p, Options{})
	typed(t, err, "node n1 (If): output 0 is f32[2,3] from then_branch and i64[2] from else_branch; want the same type, or a "+
		"condition that is known before the model runs; the condition is input flag; --value flag=1 takes then_branch, and "+
		"--value flag=0 else_branch")
	if m, err = importModel(t, p, Options{Values: map[string][]float64{"flag": {1}}}); err != nil {
		t.Error(err)
	}
}

// TestCountNames checks the names of an output whose name begins with a digit, as PyTorch writes them, and of the
// number of its rows.
func TestCountNames(t *testing.T) {
	p := model("NonZero")
	p.Graph.Node[0].Output = []string{"49"}
	p.Graph.Output[0] = &onnxpb.ValueInfoProto{Name: proto.String("49")}
	m, err := importModel(t, p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range m.Graph.Outputs {
		names = append(names, o.Name)
	}
	if want := []string{"output49", "output49_count"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
}
