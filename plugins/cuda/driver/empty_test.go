package driver

import (
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
)

// TestInterpretedEmptyWeights runs a graph with a weight that has no elements: the only weight, or one that is placed
// where another one ends.
func TestInterpretedEmptyWeights(t *testing.T) {
	for _, other := range []int64{0, 16} { // rows of another weight
		g := ir.NewGraph("empty")
		list := []*ir.Node{op.Input(g, "x", ir.TypeOf(dtype.F32, 2, 16))}
		if other > 0 {
			list = append(list, op.Param(g, "w", ir.TypeOf(dtype.F32, other, 16)))
		}
		g.Return("y", op.Concat(0, append(list, op.Param(g, "e", ir.TypeOf(dtype.F32, 0, 16)))...))
		p, _, err := sched.Build(g, sched.Options{Target: "cpu", Weights: func(name string) (int64, bool) {
			return map[string]int64{"e": 4 * 16 * other}[name], true
		}})
		if err != nil {
			t.Fatal(err)
		}
		weights := make([]byte, 4*16*other)
		exe, err := interpreted(withWGMMA, strings.Clone).Load(t.Context(), device.Load{Program: p, Weights: weights})
		if err != nil {
			t.Fatal(err)
		}
		defer exe.Close()
		b, err := program.NewBinder(p).Bind(nil)
		if err != nil {
			t.Fatal(err)
		}
		r := &graphRun{p, b, tensor.AlignedBytes(int(p.IOSize)), exe}
		in := tensor.NewArray(dtype.F32, 2, 16)
		for i := range in.Floats {
			in.Floats[i] = float64(i)
		}
		r.set("x", in)
		want := append(slices.Clone(in.Floats), make([]float64, 16*other)...)
		if y := r.run(t); !slices.Equal(y.Floats, want) {
			t.Errorf("with %d rows of another weight: %v; want %v", other, y.Floats, want)
		}
	}
}
