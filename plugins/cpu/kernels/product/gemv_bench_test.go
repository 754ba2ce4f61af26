package product

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// BenchmarkDots compares dot products with packing B, for products of a few rows with weights stored as [N, K], on one
// thread and in alternating calls. It reports the fastest call of each. kept is for weights that are packed in advance.
func BenchmarkDots(b *testing.B) {
	for _, s := range isa.Available() {
		for _, size := range []struct{ n, k int }{{1000, 1024}, {768, 768}, {256, 256}, {128, 32}, {64, 64},
			{101, 77}, {2048, 4096}} {
			for _, m := range []int{1, 2, 3, 4, 5, 6, 8, 10, 12, 16} {
				b.Run(fmt.Sprintf("%s/%dx%dx%d", s.Name, m, size.n, size.k), func(b *testing.B) {
					r := rand.New(rand.NewPCG(1, 2))
					p := kerneltest.NewPool(b, 1, s.Name)
					g := GemmArgs{M: m, N: size.n, K: size.k, A: kerneltest.Randoms(r, m*size.k), LDA: size.k,
						B: stored.F32(kerneltest.Randoms(r, size.n*size.k)), LDB: size.k, TransB: true,
						C: make([]float32, m*size.n), LDC: size.n, Bias: kerneltest.Randoms(r, size.n)}
					kept := g
					kept.Packed = PackWeights(p, &g)
					other := routes[3:] // those after dot products
					for !other[0].takes(p, &g, 1) {
						other = other[1:]
					}
					ways := []func(){func() { gemv(p, &g, 1) }, func() { other[0].run(p, &g, 1) },
						func() { gemmPacked(p, &kept, 1) }}
					best := []time.Duration{time.Hour, time.Hour, time.Hour}
					for range b.N {
						for i, f := range ways {
							f()
							for range 3 {
								start := time.Now()
								f()
								best[i] = min(best[i], time.Since(start))
							}
						}
					}
					for i, name := range []string{"dots", "packed", "kept"} {
						b.ReportMetric(float64(best[i].Nanoseconds()), name+"-ns")
					}
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}
