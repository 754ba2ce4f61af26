package scan

import (
	"fmt"
	"math"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// TestScan compares running sums, products and maxima of rows with loops over float64, at sizes around those of
// vectors.
func TestScan(t *testing.T) {
	kerneltest.EachSet(t, 3, func(t *testing.T, p *pool.Pool) {
		r := kerneltest.RNG(9)
		for i := range kerneltest.Some(120) {
			outer, n := 1+r.IntN(5), 1+r.IntN(70)
			if i%8 == 0 {
				n = 3000 + r.IntN(2000)
			}
			exclusive, reverse := r.IntN(3) == 0, r.IntN(4) == 0
			src := kerneltest.Randoms(r, outer*n)
			for k, x := range src {
				src[k] = 1 + x/8
				if i%3 == 0 {
					src[k] = x
				}
			}
			if i%5 == 4 {
				for range 1 + r.IntN(3) {
					src[r.IntN(len(src))] = []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)),
						0, float32(math.Copysign(0, -1))}[r.IntN(5)]
				}
			}
			for op, fold := range map[Op]func(a, b float64) float64{
				CumSum: func(a, b float64) float64 { return a + b }, CumProd: func(a, b float64) float64 {
					return a * b
				}, CumMax: elementwise.Larger[float64],
			} {
				want := make([]float64, len(src))
				for row := range outer {
					acc := []float64{0, 1, math.Inf(-1)}[op]
					for k := range n {
						at := row*n + k
						if reverse {
							at = row*n + n - 1 - k
						}
						if exclusive {
							want[at] = acc
						}
						acc = fold(acc, float64(src[at]))
						if !exclusive {
							want[at] = acc
						}
					}
				}
				got, check := kerneltest.Guarded(len(src))
				Run(p, op, got, src, outer, n, 1, exclusive, reverse)
				what := fmt.Sprintf("scan %d of %d x %d, exclusive %v, reverse %v", op, outer, n, exclusive, reverse)
				abs, rel := 1e-7, 1e-6
				if op == CumMax {
					abs, rel = 0, 0
				}
				kerneltest.Compare(t, what, got, want, abs, rel)
				check(t, what)
			}
		}
	})
}

// TestScanThreads checks that rows have the same bits for any number of threads.
func TestScanThreads(t *testing.T) {
	src := kerneltest.Randoms(kerneltest.RNG(4), 37*211)
	kerneltest.SameForAnyThreads(t, func(p *pool.Pool) []float32 {
		dst := make([]float32, len(src))
		Run(p, CumSum, dst, src, 37, 211, 1, false, false)
		return dst
	})
}
