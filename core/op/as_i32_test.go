package op_test

import (
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

// TestAsI32 checks ir.Def.AsI32: it computes each op of one or two operands on all values of i8, u8 and bool, and on
// many of i16, in the type itself and in i32.
func TestAsI32(t *testing.T) {
	tested := 0
	for _, def := range ir.Defs() {
		for _, d := range def.AsI32 {
			tested++
			in := allOperands(d, len(def.Operands))
			want, err := tryEval(def, def.NewAttrs(), in...)
			if err != nil { // a divisor of 0
				last := in[len(in)-1].Ints
				for i := range last {
					if last[i] == 0 {
						last[i] = 1
					}
				}
				want = eval(t, def, def.NewAttrs(), in...)
			}
			wide := make([]*tensor.Array, len(in))
			for k, x := range in {
				wide[k] = eval(t, op.CastDef, op.CastAttrs{To: dtype.I32}, x)
			}
			got := eval(t, op.CastDef, op.CastAttrs{To: want.DType}, eval(t, def, def.NewAttrs(), wide...))
			if err := interp.Compare(got, want, ir.Tolerance{}); err != nil {
				t.Errorf("%s of %v, computed in i32: %v", def.Name, d, err)
			}
		}
	}
	if tested < 60 {
		t.Errorf("%d combinations of op and type; want at least 60", tested)
	}
}

// allOperands returns n operands that have all combinations of the values of d, or of values near the ends and near 0
// if there are many.
func allOperands(d dtype.DType, n int) []*tensor.Array {
	lo, hi := d.IntRange()
	var values []int64
	for v := lo; v <= hi; v++ {
		if near := min(v-lo, hi-v, max(v, -v)); hi-lo < 256 && n < 3 || near < 5 || n < 3 && near < 40 ||
			slices.Contains([]int64{16, 31, 32, 100}, v) {
			values = append(values, v)
		}
	}
	total := 1
	for range n {
		total *= len(values)
	}
	in := make([]*tensor.Array, n)
	for k, step := 0, 1; k < n; k, step = k+1, step*len(values) {
		in[k] = tensor.NewArray(d, total)
		for i := range in[k].Ints {
			in[k].Ints[i] = values[i/step%len(values)]
		}
	}
	return in
}
