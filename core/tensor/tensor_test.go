package tensor_test

import (
	"math"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
)

func TestHasNaN(t *testing.T) {
	for _, d := range dtype.All() {
		a := tensor.NewArray(d, 3)
		if a.Floats != nil {
			a.Floats[0] = math.Inf(1)
		}
		if a.Tensor().HasNaN() {
			t.Errorf("%v: a NaN where there is none", d)
		}
		if a.Floats == nil {
			continue
		}
		a.Floats[2] = math.NaN()
		if !a.Tensor().HasNaN() {
			t.Errorf("%v: the NaN at the end is missed", d)
		}
	}
	if tensor.New(dtype.F32, 0).HasNaN() {
		t.Error("an empty tensor has a NaN")
	}
}
