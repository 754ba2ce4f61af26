package norm

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/reduce"
)

// TestNormRows compares the routine for several rows with the passes over one row, which TestNorm compares with the
// reference. The sums are the same, so the results are.
func TestNormRows(t *testing.T) {
	kerneltest.EachSet(t, 1, func(t *testing.T, p *pool.Pool) {
		s := p.Set
		f := reduce.On(s).NormRows
		if f == nil {
			t.Skip("this set has no such routine")
		}
		r := rand.New(rand.NewPCG(1, 2))
		for _, n := range []int{0, 1, s.Lanes - 1, s.Lanes, 3 * s.Lanes, 4 * s.Lanes, 7 * s.Lanes, 9*s.Lanes + 1,
			64 * s.Lanes} {
			for rows := range 4 {
				x, dst, want := make([]float32, rows*n), make([]float32, rows*n), make([]float32, rows*n)
				gamma, beta := make([]float32, n), make([]float32, n)
				for i := range x {
					x[i] = float32(1000 + r.NormFloat64())
				}
				for i := range gamma {
					gamma[i], beta[i] = r.Float32(), r.Float32()-0.5
				}
				if len(x) > 0 && rows == 2 {
					x[r.IntN(len(x))] = []float32{float32(math.NaN()), float32(math.Inf(1)), 3e38, -1e-42}[r.IntN(4)]
				}
				for _, center := range []bool{true, false} {
					if took := f(dst, x, gamma, beta, n, 1e-5, center); took != (n > 0 && n%s.Lanes == 0) {
						t.Fatalf("%d elements: %v", n, took)
					} else if !took {
						continue
					}
					for i := range rows {
						normRow(s, want[i*n:][:n], x[i*n:][:n], gamma, beta, 1e-5, center)
					}
					for i, v := range want {
						if v != dst[i] && (v == v || dst[i] == dst[i]) {
							t.Fatalf("%d rows of %d, center %v: element %d is %v, want %v", rows, n, center, i, dst[i],
								v)
						}
					}
				}
			}
		}
	})
}
