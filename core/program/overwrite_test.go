package program_test

import (
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
)

// TestMayOverwrite checks that a product may overwrite its residual unless that is also a factor, and that a sum may
// overwrite either operand.
func TestMayOverwrite(t *testing.T) {
	g := ir.NewGraph("overwrite")
	x := op.Input(g, "x", ir.TypeOf(dtype.F32, 4, 4))
	y := op.Input(g, "y", ir.TypeOf(dtype.F32, 4, 4))
	w := op.Input(g, "w", ir.TypeOf(dtype.F32, 4, 4))
	b := op.Input(g, "b", ir.TypeOf(dtype.F32, 4))
	sum, norm := op.FusedAddRmsNorm(x, y, b, b, 1e-6)
	twice, _ := op.FusedAddRmsNorm(x, x, b, b, 1e-6)
	_, indices := op.TopK(x, 4)
	for _, c := range []struct {
		name string
		n    *ir.Node
		k    int
		want bool
	}{
		{"residual", op.FusedMatMul(x, w, b, y, op.FusedMatMulAttrs{}), 3, true},
		{"bias", op.FusedMatMul(x, w, b, y, op.FusedMatMulAttrs{}), 2, false},
		{"residual without bias", op.FusedMatMul(x, w, nil, y, op.FusedMatMulAttrs{}), 3, true},
		{"residual that is x", op.FusedMatMul(x, w, nil, x, op.FusedMatMulAttrs{}), 3, false},
		{"absent", op.FusedMatMul(x, w, b, nil, op.FusedMatMulAttrs{}), 3, false},
		{"residual that is w", op.FusedMatMul(x, w, b, w, op.FusedMatMulAttrs{}), 3, false},
		{"factor", op.FusedMatMul(x, w, nil, y, op.FusedMatMulAttrs{}), 0, false},
		{"sum with itself", op.Add(x, x), 0, true},
		{"sum", op.Add(x, y), 1, true},
		{"sum over what broadcasts", op.Add(x, b), 1, false},
		{"first result over x", sum, 0, true},
		{"first result over the residual", sum, 1, true},
		{"second result over x", norm, 0, true},
		{"result over gamma", norm, 2, false},
		{"result over what is twice an operand", twice, 0, false},
		{"result of an op that overwrites nothing", indices, 0, false},
	} {
		if got := program.MayOverwrite(c.n, c.k); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if err := g.Err(); err != nil {
		t.Fatal(err)
	}
}
