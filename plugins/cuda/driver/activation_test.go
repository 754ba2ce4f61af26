package driver

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// TestInterpretedActivations compares the activations of products with float64.
func TestInterpretedActivations(t *testing.T) {
	testActivations(t, interpreted(withMMA, strings.Clone))
}

// TestActivations is TestInterpretedActivations on the device.
func TestActivations(t *testing.T) { testActivations(t, shared) }

// testActivations runs a product of zeros, so that the activation gets the bias as it is.
func testActivations(t *testing.T, on device.Backend) {
	var values []float64
	for _, v := range []float64{0, 1e-40, 1e-38, 1e-20, 1e-5, 87, 88.5, 104, 1e3, 1e13, 1e20, 3e38, math.Inf(1)} {
		values = append(values, v, -v)
	}
	values = append(values, math.NaN())
	for len(values) < 512 {
		values = append(values, float64(len(values)-270)/13)
	}
	for _, act := range []string{"gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "relu", "clamp(max=6.0)", "hardswish",
		"hardsigmoid(alpha=0.2,beta=0.5)"} {
		t.Run(act, func(t *testing.T) {
			g, err := ir.Parse(fmt.Sprintf("graph act\nx = input : f32[16,64]\n"+
				"w = input : f32[%[1]d,64]\nb = input : f32[%[1]d]\ny = fused_matmul x, w, bias=b {act=%[2]q, trans_b=true} : f32[16,%[1]d]\nreturn y=y\n", len(values), act))
			if err != nil {
				t.Fatal(err)
			}
			r := loadOn(t, on, g, "bf16")
			b := tensor.NewArray(g.Inputs()[2].Type.DType, len(values))
			copy(b.Floats, values)
			r.set("b", b)
			y := r.run(t)
			for i, v := range values {
				v = float64(float32(v))
				want, got := activate(act, v), y.Floats[i]
				near := math.Abs(got-want) <= 0x1p-21*max(1, math.Abs(want))
				if !near && got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
					t.Errorf("%s of %g is %g; want %g", act, v, got, want)
				}
			}
		})
	}
}
