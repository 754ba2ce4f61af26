package op_test

import (
	"math"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

// evaluate returns the first result of an op's definition for the given operands.
func evaluate(t *testing.T, def *ir.OpDef, attrs any, in ...*tensor.Array) []float64 {
	t.Helper()
	var types []ir.Type
	for _, x := range in {
		dims := make([]int64, len(x.Shape))
		for i, n := range x.Shape {
			dims[i] = int64(n)
		}
		types = append(types, ir.TypeOf(x.DType, dims...))
	}
	out, err := def.InferResults(attrs, types, ir.Type{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	a := tensor.NewArray(out[0].DType, out[0].Shape.Eval(nil)...)
	if err := def.Eval(attrs, in, a); err != nil {
		t.Fatal(err)
	}
	return a.Floats
}

func array(shape []int, values ...float64) *tensor.Array {
	a := tensor.NewArray(dtype.F32, shape...)
	for i := range a.Floats {
		a.Floats[i] = values[i%len(values)]
	}
	return a
}

// TestStatements checks what spec/ops.md says about edge cases that an implementation in another language must get
// right.
func TestStatements(t *testing.T) {
	inf := math.Inf(1)
	x, w := array([]int{1, 1, 3}, 1, 2, 4), array([]int{1, 1, 3}, inf, 1, inf)
	conv := op.ConvAttrs{Layout: op.NCW, Padding: []int{2}, Dilation: []int{2}}
	if got := evaluate(t, op.Conv1DDef, conv, x, w); !slices.Equal(got, []float64{inf, 2, inf}) {
		t.Errorf("a tap on padding takes part: %v", got)
	}
	conv.Dilation, conv.Padding = []int{3}, []int{3}
	if got := evaluate(t, op.Conv1DDef, conv, x, w); !slices.Equal(got, []float64{1, 2, 4}) {
		t.Errorf("a tap on padding takes part: %v", got)
	}
	conv.Groups = 1
	if got := evaluate(t, op.Conv1DDef, conv, x, w); !slices.Equal(got, []float64{1, 2, 4}) {
		t.Errorf("groups 1 is not groups 0: %v", got)
	}

	// All scores are equal, so a query gets the mean of the values that it attends to.
	zero, v := array([]int{1, 6, 1}, 0), array([]int{1, 6, 1}, 0, 3, 6, 9, 12, 15)
	at := op.AttentionAttrs{Heads: 1, Layout: op.BSE, Mask: op.MaskSliding, Window: 2}
	if got := evaluate(t, op.AttentionDef, at, zero, zero, v); slices.ContainsFunc(
		[]int{0, 1, 2, 3, 4, 5},
		func(i int) bool { return math.Abs(got[i]-[]float64{0, 1.5, 3, 6, 9, 12}[i]) > 1e-9 }) {
		t.Errorf("a window of 2 is 3 keys: %v", got)
	}
	// In bse, head h has elements h*D to h*D+D-1 of a row.
	wide := array([]int{1, 1, 4}, 1, 2, 3, 4)
	if got := evaluate(t, op.AttentionDef, op.AttentionAttrs{Heads: 2, KVHeads: 1, Layout: op.BSE, Mask: op.MaskNone},
		wide, array([]int{1, 1, 2}, 0), array([]int{1, 1, 2}, 7, 8)); !slices.Equal(got, []float64{7, 8, 7, 8}) {
		t.Errorf("heads in bse: %v", got)
	}

	// q is 1, k -Inf, v 3: no key has a weight.
	grid := op.GridAttentionAttrs{Heads: 1}
	if got := evaluate(t, op.GridAttentionDef, grid, array([]int{1, 1, 2, 3}, 1, -inf, 3),
		array([]int{3}, 0)); !slices.Equal(got, []float64{0, 0}) {
		t.Errorf("a row of -Inf: %v", got)
	}

	// Texts that the grammar allows, and texts that it does not.
	for expr, ok := range map[string]bool{
		"v0=add(i0,1e-06)": true, "v0=add(i0,1.5e+06)": true, "v0=add(i0,2.0)": true, "v0=add(i0,-Inf)": true,
		"v0=elu(i0,alpha=0.5); v1=cast(v0,to=bool)": true,
		"v0=add(i0,2)": false, "v0=add(i0,1e-6)": false, "v0=add(i0,1500000.0)": false, "v0=add(i0, 2.0)": false,
		"v0=add(i0,i2)": false, "v1=neg(i0)": false,
		"v0=neg(i0);v1=neg(v0)": false, "v0=neg(i0); v1=neg(i0)": false, "v0=elu(i0,alpha=0.0)": false,
	} {
		if _, err := op.ParseRegion(expr); (err == nil) != ok {
			t.Errorf("%q: %v", expr, err)
		}
	}
}
