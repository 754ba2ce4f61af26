package product

import (
	"fmt"
	"math"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// TestFewRows compares products of a few rows and weights stored as [N, K] with sums in float64. The bits are those of
// one thread.
func TestFewRows(t *testing.T) {
	r := kerneltest.RNG(60)
	for range kerneltest.Some(40) {
		m, n, k := 1+r.IntN(mostDots+1), 1+r.IntN(150), 1+r.IntN(300)
		if r.IntN(3) == 0 {
			k += 1 + keptSmall/n
		}
		g := randomGemm(r, m, n, k, 1+r.IntN(2))
		g.Precision, g.TransB, g.LDB, g.StrideB = Float32, true, k+r.IntN(5), 0
		g.B = kerneltest.RandomWeights(r, dtype.F32, n*g.LDB)
		want, abs := gemm64(g), 1e-6*math.Sqrt(float64(k))+2e-6
		kerneltest.EachPool(t, func(t *testing.T, p *pool.Pool) {
			what := fmt.Sprintf("%s: %s", p.Features(), describe(g))
			got := runGemm(t, p, g, what)
			kerneltest.Compare(t, what, got, want, abs, 1e-5)
			alone := runGemm(t, kerneltest.NewPool(t, 1, p.Features()), g, what)
			for i, x := range alone {
				if math.Float32bits(x) != math.Float32bits(got[i]) {
					t.Fatalf("%s: element %d is %v with one thread and %v with %d", what, i, x, got[i], p.Threads())
				}
			}
		})
	}
}
