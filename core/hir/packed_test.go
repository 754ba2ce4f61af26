package hir_test

import (
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/hir"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/quant"
)

// TestPackedWeights checks that a block with packed weights computes the same as with their unpacked values.
func TestPackedWeights(t *testing.T) {
	build := func(w, table ir.Type) *ir.Graph {
		g := ir.NewGraph("g")
		n := inputs(g, ir.TypeOf(dtype.I32, 3), table, w, f32(7))
		g.Return("y", hir.Linear(op.Gather(n[1], n[0], 0), n[2], n[3], "silu"))
		return g
	}
	in, got := run(t, build(ir.TypeOf(dtype.Q4_K, 7, 2), ir.TypeOf(dtype.Q6_K, 5, 2)))
	for _, name := range []string{"b", "c"} {
		x := in[name]
		values := make([]float32, x.Len()*256)
		quant.Decode(values, x.DType, x.Bytes)
		in[name] = interp.Random(nil, f32(int64(x.Shape[0]), 0), nil, ir.Range{})
		in[name].Shape = []int{x.Shape[0], 512}
		for _, v := range values {
			in[name].Floats = append(in[name].Floats, float64(v))
		}
	}
	want, err := interp.Run(build(f32(7, 512), f32(5, 512)), nil, in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := interp.Compare(got, want["y"], ir.Tolerance{Rel: 1e-12}); err != nil {
		t.Error(err)
	}
	g := ir.NewGraph("g")
	n := inputs(g, f32(3, 480), ir.TypeOf(dtype.Q4_K, 7, 2))
	hir.Linear(n[0], n[1], nil, "")
	if err := g.Err(); err == nil || !strings.Contains(err.Error(), "q4_k[7,2]") {
		t.Errorf("rows of 512 values for 480 channels: %v", err)
	}
}
