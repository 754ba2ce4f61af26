package tensortest

import (
	"math"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
)

func array(vals ...float64) *tensor.Array {
	return &tensor.Array{DType: dtype.F64, Shape: []int{len(vals)}, Floats: vals}
}

func TestCompare(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, tc := range []struct {
		got, want *tensor.Array
		max, l2   float64
	}{
		{array(1, 2), array(1, 2), 0, 0},
		{array(1, 3), array(1, -4), 7.0 / 4, 7 / math.Sqrt(17)},
		{array(3, 0), array(0, 0), 3e30, 3e150},
		{array(nan, 1), array(1, 1), inf, inf},
		{array(1, 1), array(nan, 1), inf, inf},
		{array(nan, 1), array(nan, 1), inf, inf},
		{array(inf, 1), array(inf, 1), 0, 0},
		{array(inf, 1), array(1, 1), inf, inf},
		{array(1, 1), array(inf, 1), inf, inf},
		{array(-inf, 1), array(inf, 1), inf, inf},
	} {
		d, err := Compare(tc.got, tc.want)
		if err != nil {
			t.Fatal(err)
		}
		if d.Max != tc.max || math.Abs(d.L2-tc.l2) > 1e-12*tc.l2 && !math.IsInf(tc.max, 1) {
			t.Errorf("%v against %v: %v, want max %v l2 %v", tc.got.Floats, tc.want.Floats, d, tc.max, tc.l2)
		}
		if d.Within(1e300) == math.IsInf(tc.max, 1) {
			t.Errorf("%v against %v: within any tolerance: %v", tc.got.Floats, tc.want.Floats, d.Within(1e300))
		}
	}
}

func TestCompareShapes(t *testing.T) {
	a, b := array(1, 2), array(1, 2)
	b.Shape = []int{1, 1, 2}
	if _, err := Compare(a, b); err != nil {
		t.Error(err)
	}
	b.Shape = []int{2, 1}
	if _, err := Compare(a, b); err == nil {
		t.Error("[2] and [2 1] compared")
	}
	if (Diff{Max: math.NaN()}).Within(1) {
		t.Error("NaN is within 1")
	}
}
