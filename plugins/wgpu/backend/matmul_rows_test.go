//go:build cgo && (darwin || amd64)

package backend

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
)

// TestProductRows checks that a product whose rows are known at run time takes the kernel for one row, for few or for
// many.
func TestProductRows(t *testing.T) {
	for _, c := range devicetest.SomeOf(t, 2, []struct {
		n, k   int64
		weight dtype.DType
		attrs  fused
	}{
		{7, 68, dtype.F32, fused{HasBias: true, Act: "silu"}}, {33, 1100, dtype.BF16, fused{HasResidual: true}},
		{2050, 132, dtype.F16, fused{}}, {3, 4300, dtype.F32, fused{HasBias: true, HasResidual: true}},
	}) {
		t.Run(fmt.Sprint(c.n, "x", c.k), func(t *testing.T) {
			c.attrs.TransB = true
			g := ir.NewGraph("rows", ir.Sym{Name: "T", Min: 1, Max: 120})
			rows := ir.MustDim("T")
			in := []*ir.Node{op.Input(g, "x", ir.Type{DType: dtype.F32, Shape: ir.Shape{rows, ir.Static(c.k)}}),
				op.Input(g, "w", ir.TypeOf(c.weight, c.n, c.k))}
			var bias, residual *ir.Node
			if c.attrs.HasBias {
				bias = op.Input(g, "bias", ir.TypeOf(dtype.F32, c.n))
			}
			if c.attrs.HasResidual {
				residual = op.Input(g, "residual", ir.Type{DType: dtype.F32, Shape: ir.Shape{rows, ir.Static(c.n)}})
			}
			y := op.FusedMatMul(in[0], in[1], bias, residual, c.attrs.attrs())
			g.Return("y", y)
			p, _, err := sched.Build(g, sched.Options{Target: "portable"})
			if err != nil {
				t.Fatal(err)
			}
			exe := load(t, shared, p, nil)
			for _, m := range []int64{1, 2, 9, 1, 97, 120} {
				syms, r := map[string]int64{"T": m}, rand.New(rand.NewPCG(uint64(m), 7))
				named, list := map[string]*tensor.Array{}, []*tensor.Array{}
				for _, n := range p.Graph.Inputs() {
					a := tensor.NewArray(n.Type.DType, n.Type.Shape.Eval(syms)...)
					for i := range a.Floats {
						a.Floats[i] = float64(r.IntN(201)-100) / 128 // exact in bf16
					}
					named[n.Name], list = a, append(list, a)
				}
				want := tensor.NewArray(dtype.F32, int(m), int(c.n))
				if err := y.Op.Eval(y.Attrs, list, want); err != nil {
					t.Fatal(err)
				}
				for i, v := range onDevice(t, exe, p, syms, named)["y"].Floats {
					if w := want.Floats[i]; !(math.Abs(v-w) <= 1e-5*math.Sqrt(float64(c.k))) {
						t.Fatalf("%d rows, element %d is %v; want %v", m, i, v, w)
					}
				}
			}
		})
	}
}
