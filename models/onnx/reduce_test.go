package onnx

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/models/onnx/onnxpb"
)

// TestReduceIntegers compares reductions of integers, whose exact results are not integers, with ONNX Runtime 1.32.
func TestReduceIntegers(t *testing.T) {
	for name, want := range map[string][]int64{ // over rows and over all
		"ReduceLogSumExp": {5, 1, 60, 60}, "ReduceL2": {6, 9, 84, 85}, "ReduceMean": {1, -2, 30, 10},
		"ReduceLogSum": {1, 2, 4, 4},
	} {
		for kind, d := range map[int32]dtype.DType{6: dtype.I32, 7: dtype.I64} {
			x := tensor.NewArray(d, 3, 4)
			copy(x.Ints, []int64{3, 1, -2, 5, 0, 0, 0, -9, 60, 60, 2, 1})
			if name == "ReduceLogSum" {
				x.Ints[7] = 9
			}
			for rows := range 2 {
				m := model(name, &onnxpb.AttributeProto{Name: proto.String("axes"), Ints: [][]int64{{0, 1}, {1}}[rows],
					Type: onnxpb.AttributeProto_INTS.Enum()})
				m.OpsetImport[0].Version = proto.Int64(13)
				in := m.Graph.Input[0].Type.GetTensorType()
				in.ElemType = proto.Int32(kind)
				for i, n := range x.Shape {
					in.Shape.Dim[i].Value = &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: int64(n)}
				}
				m.Graph.Output[0].Type.GetTensorType().Shape = nil
				got, err := importModel(t, m, Options{})
				if err != nil {
					t.Fatal(name, err)
				}
				out, err := interp.Run(got.Graph, nil, map[string]*tensor.Array{"x": x}, got.array)
				if err != nil {
					t.Fatal(name, err)
				}
				if y := out["y"]; y.DType != d || !slices.Equal(y.Ints, [][]int64{want[3:], want[:3]}[rows]) {
					t.Errorf("%s of %v is %v %v; want %v", name, d, y.DType, y.Ints, want)
				}
			}
		}
	}
}
