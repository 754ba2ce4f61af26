package onnx

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

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
	if y := computed(t, resized("tf_half_pixel_for_nn")); !slices.Equal(y.Floats, []float64{0, 2, 3, 5, 3, 5}) {
		t.Errorf("y is %v %v", y.Shape, y.Floats)
	}
	_, err := importModel(t, resized("half"), Options{})
	typed(t, err, `coordinate_transformation_mode is "half"; allowed are align_corners, asymmetric`)
}
