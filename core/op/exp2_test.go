package op_test

import (
	"math"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

// TestExp2Expansion checks the digits of the expansion of exp2 over all exponents of f32, where every op of the
// expansion rounds.
func TestExp2Expansion(t *testing.T) {
	x := tensor.NewArray(dtype.F32, 20000)
	for i := range x.Floats {
		x.Floats[i] = float64(float32(-152 + 0.01403*float64(i)))
	}
	special := []float64{math.Inf(1), math.Inf(-1), math.NaN(), 0, 127.99999, 128, -126, -149, -150, 1e30, -1e30}
	copy(x.Floats, special)
	g, err := interp.LowerOne(op.Exp2Def, op.NoAttrs{}, []ir.Type{interp.TypeOf(x)}, ir.Type{})
	if err != nil {
		t.Fatal(err)
	}
	values := map[*ir.Node]*tensor.Array{g.Inputs()[0]: x}
	for _, n := range g.Nodes {
		if values[n] != nil {
			continue
		}
		var in []*tensor.Array
		for _, v := range n.In {
			in = append(in, values[v])
		}
		out, err := interp.Eval(n, nil, in)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range out[0].Floats {
			out[0].Floats[i] = float64(float32(v)) // as a backend rounds
		}
		values[n] = out[0]
	}
	got := values[g.Outputs[0].Node].Floats
	for i, v := range x.Floats {
		want := math.Exp2(v)
		if over := math.IsInf(float64(float32(want)), 0); over || math.IsNaN(want) {
			// the largest number is an ulp from infinity
			if over && got[i] < math.MaxFloat32 || math.IsNaN(want) != math.IsNaN(got[i]) {
				t.Errorf("2^%v = %v, want %v", v, got[i], want)
			}
			continue
		}
		ulp := math.Ldexp(1, max(math.Ilogb(max(want, 0x1p-149)), -126)-23)
		if d := math.Abs(got[i]-want) / ulp; d > 4 {
			t.Fatalf("2^%v = %v, want %v: %.1f units in the last place", v, got[i], want, d)
		}
	}
}
