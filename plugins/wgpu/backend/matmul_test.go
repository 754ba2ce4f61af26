//go:build cgo && (darwin || amd64)

package backend

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
)

// BenchmarkMatMul times square products in f32, both orders of the weight. What surrounds a product (submission, transfer)
// is taken out by the difference between a program of 21 products and one of a single product.
func BenchmarkMatMul(b *testing.B) {
	for _, n := range []int64{1024, 4096} {
		for _, trans := range []bool{true, false} {
			b.Run(fmt.Sprintf("%d/trans_b=%v", n, trans), func(b *testing.B) {
				weights := tensor.AlignedBytes(int(n * n * 4))
				w := tensor.View[float32](weights)
				for i := range w {
					w[i] = float32(i%7-3) / 1000
				}
				few, many := productChain(b, n, 1, trans, weights), productChain(b, n, 21, trans, weights)
				best := time.Duration(1 << 62)
				for range max(b.N, 5) {
					best = min(best, (many()-few())/20)
				}
				b.ReportMetric(2*float64(n)*float64(n)*float64(n)/best.Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}

// productChain gives a function that times x . w . w ... once.
func productChain(b *testing.B, n int64, count int, trans bool, weights []byte) func() time.Duration {
	g := ir.NewGraph("chain")
	x, w := op.Input(g, "x", ir.TypeOf(dtype.F32, n, n)), op.Param(g, "w", ir.TypeOf(dtype.F32, n, n))
	for range count {
		x = op.MatMul(x, w, op.MatMulAttrs{TransB: trans})
	}
	g.Return("y", x)
	p, _, err := sched.Build(g, sched.Options{Target: "portable", Weights: func(string) (int64, bool) { return 0, true }})
	if err != nil {
		b.Fatal(err)
	}
	e, err := shared.Load(context.Background(), device.Load{Program: p, Weights: weights})
	if err != nil {
		b.Skip(err)
	}
	b.Cleanup(func() { e.Close() })
	io := tensor.AlignedBytes(int(p.IOSize))
	return func() time.Duration {
		start := time.Now()
		if _, err := e.Run(context.Background(), device.Run{IO: io}); err != nil {
			b.Fatal(err)
		}
		return time.Since(start)
	}
}
