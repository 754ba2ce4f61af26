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

// BenchmarkSizes measures what a change of sizes costs. It runs a program of 1,000 small steps, whose shapes all depend
// on B and S: at the sizes of the last run ("last"), at five sizes in turn ("seen"), and at 64 sizes in turn ("new").
func BenchmarkSizes(b *testing.B) {
	g := ir.NewGraph("sizes", ir.Sym{Name: "B", Min: 1, Max: 4}, ir.Sym{Name: "S", Min: 1, Max: 64})
	x := op.Input(g, "x", ir.Type{DType: dtype.F32, Shape: ir.Shape{ir.Named("B"), ir.Named("S")}})
	flat := op.Reshape(x, ir.Shape{ir.MustDim("B*S")})
	for range 500 {
		flat = op.Add(flat, op.Reshape(x, flat.Type.Shape))
		x = op.Relu(op.Reshape(flat, x.Type.Shape))
	}
	g.Return("x", x)
	p, _, err := sched.Build(
		g, sched.Options{Target: "portable", Weights: func(string) (int64, bool) { return 0, false }})
	if err != nil {
		b.Fatal(err)
	}
	if len(p.Steps) != 1000 {
		b.Fatalf("%d steps", len(p.Steps))
	}
	e, err := Backend{}.Load(context.Background(), device.Load{Program: p, Threads: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	r := device.Run{IO: tensor.AlignedBytes(int(p.IOSize))}
	for name, sizes := range map[string]func(i int) int64{
		"last": func(int) int64 { return 32 }, "seen": func(i int) int64 { return 30 + int64(i)%5 },
		"new": func(i int) int64 { return 1 + int64(i)%64 },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				r.Syms = map[string]int64{"B": 2, "S": sizes(i)}
				if _, err := e.Run(context.Background(), r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
