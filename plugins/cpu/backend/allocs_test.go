package backend

import (
	"context"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
)

// TestStepsAllocateNothing checks that a run allocates nothing, with ops that pass more than slices to their kernels.
func TestStepsAllocateNothing(t *testing.T) {
	g := ir.NewGraph("steps")
	x := op.Input(g, "x", ir.TypeOf(dtype.F32, 4, 30, 50))
	i := op.Cast(x, dtype.I32)
	y := op.Where(op.Lt(i, op.Cast(x, dtype.I32)), op.Sin(x), op.Cast(i, dtype.F32))
	z := op.Concat(2, op.Transpose(y, 0, 2, 1), op.Transpose(x, 0, 2, 1))
	g.Return(
		"act", op.FusedMatMul(op.Reshape(x, ir.Shape{ir.Static(120), ir.Static(50)}),
			op.Input(g, "w", ir.TypeOf(dtype.F32, 50, 9)), nil, nil,
			op.FusedMatMulAttrs{Act: "gelu"}))
	g.Return("y", op.MatMul(x, z, op.MatMulAttrs{}))
	g.Return("z", op.Softmax(z, 1))
	p, _, err := sched.Build(
		g, sched.Options{Target: "portable", Weights: func(string) (int64, bool) { return 0, false }})
	if err != nil {
		t.Fatal(err)
	}
	// see TestKernelsAllocateNothing
	e, err := Backend{}.Load(context.Background(), device.Load{Program: p, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	r := device.Run{IO: tensor.AlignedBytes(int(p.IOSize))}
	run := func() {
		if _, err := e.Run(context.Background(), r); err != nil {
			t.Fatal(err)
		}
	}
	for range 4 {
		run()
	}
	if n := testing.AllocsPerRun(20, run); n > 0 {
		t.Errorf("%v allocations in a run of %d steps", n, len(p.Steps))
	}
}
