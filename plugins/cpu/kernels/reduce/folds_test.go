package reduce

import (
	"math"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// TestFolds reduces one row, and many rows and columns, of all sizes, with a NaN or an infinity at each place in turn.
func TestFolds(t *testing.T) {
	r := kerneltest.RNG(21)
	nan, inf := math.NaN(), math.Inf(1)
	kerneltest.EachPool(t, func(t *testing.T, p *pool.Pool) {
		for _, op := range []Op{Sum, Max, Min, Prod} {
			for n := 1; n < 150; n += 1 + n/20 {
				x := kerneltest.Randoms(r, n)
				for i := range x {
					x[i] += 2
				}
				for at := -1; at < n; at += 1 + n/30 {
					for _, special := range []float64{nan, inf, -inf} {
						y := append([]float32{}, x...)
						if at >= 0 {
							y[at] = float32(special)
						}
						want := float64(y[0])
						for _, v := range y[1:] {
							want = foldOne(op, want, float64(v))
						}
						for _, axes := range [][2][]int{{{n}, {0}}, {{n, 1}, {0}}} {
							got := []float32{0}
							Floats(p, op, stored.F32(got), stored.F32(y), axes[0], axes[1])
							if !kerneltest.Near(got[0], float64(float32(want)), 0, 1e-5) {
								t.Fatalf("%v of %d elements with %v at %d is %v, want %v", op, n, special, at, got[0],
									want)
							}
						}
						rows, width := n, 1+n%37 // all columns alike
						wide, columns := make([]float32, rows*width), make([]float32, width)
						for i, v := range y {
							for j := range width {
								wide[i*width+j] = v
							}
						}
						Floats(p, op, stored.F32(columns), stored.F32(wide), []int{rows, width}, []int{0})
						lines := make([]float32, width)
						Floats(p, op, stored.F32(lines), stored.F32(slices.Repeat(y, width)), []int{width, rows},
							[]int{1})
						for _, v := range append(columns, lines...) {
							if !kerneltest.Near(v, float64(float32(want)), 0, 1e-5) {
								t.Fatalf("%v of %d elements for %d results with %v at %d is %v, want %v", op, rows,
									width, special, at, v, want)
							}
						}
					}
				}
			}
		}
	})
}
