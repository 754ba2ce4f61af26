package onnx

import (
	"math"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/random"
	"github.com/rlx-go/rlx/models/onnx/onnxpb"
)

// TestThreefry compares the words with those of core/random.
func TestThreefry(t *testing.T) {
	g := ir.NewGraph("words")
	key := [2]uint32{0x12345678, 0x9abcdef0}
	err := g.Build(func() {
		x, y := threefry(op.Cast(op.Iota(g, 0, ir.TypeOf(dtype.I32, 33)), dtype.U32), key)
		g.Return("x", x)
		g.Return("y", y)
	})
	if err != nil {
		t.Fatal(err)
	}
	out, err := interp.Run(g, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 33 {
		want := random.Threefry([2]uint32{uint32(i), 0}, key)
		if x, y := out["x"].Ints[i], out["y"].Ints[i]; x != int64(want[0]) || y != int64(want[1]) {
			t.Fatalf("words %d are %x and %x; want %x", i, x, y, want)
		}
	}
}

// TestMoments checks the mean, the variance and the fourth moment of each distribution. They must lie within five
// standard deviations of the values expected for this number of samples.
func TestMoments(t *testing.T) {
	const count = 20_000
	float := func(name string, v float32) *onnxpb.AttributeProto {
		return &onnxpb.AttributeProto{Name: &name, F: &v}
	}
	shape := &onnxpb.AttributeProto{Name: proto.String("shape"), Ints: []int64{count}}
	samples := &onnxpb.AttributeProto{Name: proto.String("sample_size"), I: proto.Int64(count)}
	for name, c := range map[string]struct {
		attrs                    []*onnxpb.AttributeProto
		in                       *onnxpb.TensorProto
		mean, variance, kurtosis float64
	}{
		"RandomUniform": {[]*onnxpb.AttributeProto{shape, float("low", -1), float("high", 3), float("seed", 5)}, nil, 1,
			16.0 / 12, 1.8},
		"RandomNormal": {[]*onnxpb.AttributeProto{shape, float("mean", 2), float("scale", 3), float("seed", 5)},
			nil, 2, 9,
			3},
		"Bernoulli": {nil, &onnxpb.TensorProto{Dims: []int64{count}, FloatData: filledWith(0.25, count)}, 0.25, 0.1875,
			1/0.1875 - 3},
		"Multinomial": {[]*onnxpb.AttributeProto{samples}, &onnxpb.TensorProto{Dims: []int64{1, 2},
			FloatData: []float32{float32(math.Log(3)), 0}}, 0.25, 0.1875, 1/0.1875 - 3},
	} {
		t.Run(name, func(t *testing.T) {
			m := model(name, c.attrs...)
			m.Graph.Node[0].Input, m.Graph.Input = nil, nil
			if c.in != nil {
				c.in.Name, c.in.DataType = proto.String("in"), proto.Int32(1)
				m.Graph.Initializer, m.Graph.Node[0].Input = []*onnxpb.TensorProto{c.in}, []string{"in"}
			}
			got, err := importModel(t, m, Options{})
			if err != nil {
				t.Fatal(err)
			}
			out, err := interp.Run(got.Graph, nil, nil, got.array)
			if err != nil {
				t.Fatal(err)
			}
			var mean, second, fourth float64
			y := out["y"]
			for i := range y.Len() {
				d := y.At(i) - c.mean
				mean, second, fourth = mean+d/count, second+d*d/count, fourth+d*d*d*d/count
			}
			if limit := 5 * math.Sqrt(c.variance/count); y.Len() != count || !(math.Abs(mean) < limit) {
				t.Errorf("mean of %d is off by %g; want at most %g", y.Len(), mean, limit)
			}
			if limit := 5 * c.variance * math.Sqrt((c.kurtosis-1)/count); !(math.Abs(second-c.variance) < limit) {
				t.Errorf("variance is %g; want %g within %g", second, c.variance, limit)
			}
			if k := fourth / (second * second); !(math.Abs(k-c.kurtosis) < 0.1*c.kurtosis) {
				t.Errorf("kurtosis is %g; want %g", k, c.kurtosis)
			}
		})
	}
}

func filledWith(v float32, count int) []float32 {
	out := make([]float32, count)
	for i := range out {
		out[i] = v
	}
	return out
}
