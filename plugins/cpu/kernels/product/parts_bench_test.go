package product

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// BenchmarkParts compares products in parts with those in vectors of float32, in alternating runs. It reports the
// fastest of each.
func BenchmarkParts(b *testing.B) {
	for _, size := range []struct{ m, n, k int }{{512, 2048, 2048}, {512, 8192, 2048}, {512, 2048, 8192},
		{64, 2048, 2048}, {128, 2048, 2048}, {256, 768, 1024}, {1024, 256, 768}} {
		for _, bits := range []int{16, 32} {
			for _, trans := range []bool{false, true} {
				b.Run(fmt.Sprintf("%dx%dx%d/%d/%v", size.m, size.n, size.k, bits, trans), func(b *testing.B) {
					x, c, w := make([]float32, size.m*size.k), make([]float32, size.m*size.n),
						make([]float32, size.n*size.k)
					for i := range x {
						x[i] = rand.Float32()*4 - 2
					}
					for i := range w {
						w[i] = rand.Float32()*4 - 2
					}
					g := GemmArgs{M: size.m, N: size.n, K: size.k, A: x, LDA: size.k, B: stored.F32(w), LDB: size.n,
						TransB: trans, C: c, LDC: size.n}
					if trans {
						g.LDB = g.K
					}
					if bits == 16 {
						h := make([]uint16, len(w))
						for i := range h {
							h[i] = uint16(rand.Uint32N(256) + 0x3f00)
						}
						g.B = stored.BF16(h)
					}
					sets := []string{"avx512bf16", "amx"}
					best := map[string]time.Duration{}
					for range b.N {
						for _, set := range sets {
							p := kerneltest.NewPool(b, 1, set)
							Gemm(p, &g)
							for range 3 {
								start := time.Now()
								Gemm(p, &g)
								if d := time.Since(start); best[set] == 0 || d < best[set] {
									best[set] = d
								}
							}
						}
					}
					flops := 2e-9 * float64(size.m) * float64(size.n) * float64(size.k)
					for _, set := range sets {
						b.ReportMetric(flops/best[set].Seconds(), set+"-GFLOP/s")
					}
				})
			}
		}
	}
}
