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

// TestNearestOfTensorFlow runs Resize as tf2onnx writes tf.image.resize with method "nearest". ONNX Runtime computed
// the result.
func TestNearestOfTensorFlow(t *testing.T) {
	resized := func(coords string) *onnxpb.ModelProto {
		text := func(name, v string) *onnxpb.AttributeProto {
			return &onnxpb.AttributeProto{Name: &name, S: []byte(v), Type: onnxpb.AttributeProto_STRING.Enum()}
		}
		m := model("Resize", text("coordinate_transformation_mode", coords), text("mode", "nearest"),
			text("nearest_mode", "floor"))
		m.Graph.Node[0].Input = []string{"x", "", "scales"}
		m.Graph.Initializer = []*onnxpb.TensorProto{{Name: proto.String("scales"), Dims: []int64{2},
			DataType: proto.Int32(1), FloatData: []float32{1.5, 2.0 / 3}}}
		return m
	}
	m, err := importModel(t, resized("tf_half_pixel_for_nn"), Options{})
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
	if y := out["y"]; !slices.Equal(y.Floats, []float64{0, 2, 3, 5, 3, 5}) {
		t.Errorf("y is %v %v", y.Shape, y.Floats)
	}
	_, err = importModel(t, resized("half"), Options{})
	typed(t, err, `coordinate_transformation_mode is "half"; allowed are align_corners, asymmetric`)
}
