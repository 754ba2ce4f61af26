package backend

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
)

// TestManySizes runs one executable at random sizes, each time with other memory for inputs and outputs. An executable
// reuses the calls of its last run; no size or address of that run may remain.
func TestManySizes(t *testing.T) {
	g := ir.NewGraph("sizes", ir.Sym{Name: "B", Min: 1, Max: 5}, ir.Sym{Name: "S", Min: 1, Max: 7})
	x := op.Input(g, "x", ir.Type{DType: dtype.F32, Shape: ir.Shape{ir.Named("B"), ir.Named("S"), ir.Static(4)}})
	flat := op.Reshape(x, ir.Shape{ir.MustDim("B*S"), ir.Static(4)})
	i := op.Cast(op.Neg(flat), dtype.I32)
	y := op.Concat(0, op.Cast(i, dtype.F32), flat,
		op.Cast(op.Max(i, op.Sub(op.Const(g, 0, ir.TypeOf(dtype.I32)), i)), dtype.F32))
	g.Return("y", op.Reshape(y, ir.MustType("f32[3,B,S,4]").Shape))
	p, _, err := sched.Build(
		g, sched.Options{Target: "portable", Weights: func(string) (int64, bool) { return 0, false }})
	if err != nil {
		t.Fatal(err)
	}
	e, err := Backend{}.Load(context.Background(), device.Load{Program: p, Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		b, s := 1+rng.IntN(5), 1+rng.IntN(7)
		in := tensor.NewArray(dtype.F32, b, s, 4)
		for i := range in.Floats {
			in.Floats[i] = float64(rng.IntN(200) - 100)
		}
		n := len(in.Floats)
		got := devicetest.Once(t, e, p, map[string]int64{"B": int64(b), "S": int64(s)},
			map[string]*tensor.Array{"x": in})["y"]
		for i, v := range in.Floats {
			if len(got.Floats) != 3*n || got.Floats[i] != -v || got.Floats[n+i] != v ||
				got.Floats[2*n+i] != max(v, -v) {
				t.Fatalf("B = %d, S = %d: element %d of %v is wrong", b, s, i, got.Shape)
			}
		}
	}
}
