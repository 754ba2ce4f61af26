package kernels

import (
	"math"
	"testing"
)

// TestGemmOwnPanels is TestGemm for shapes whose B each worker packs for itself, several products in a row.
func TestGemmOwnPanels(t *testing.T) {
	eachPool(t, func(t *testing.T, p *Pool) {
		r := rng(12)
		for _, s := range [][3]int{{195, 33, 40}, {200, 100, 700}, {64 * 3, 1, 17}, {211, 70, 0}, {333, 129, 65}} {
			for range 4 {
				g := randomGemm(r, s[0], s[1], s[2], 1)
				what := describe(g)
				compare(t, what, runGemm(t, p, g, what), gemm64(g), 1e-6*math.Sqrt(float64(g.K))+2e-6, 1e-5)
			}
		}
	})
	sameForAnyThreads(t, func(p *Pool) []float32 {
		g := randomGemm(rng(13), 260, 50, 600, 1)
		return runGemm(t, p, g, "threads")
	})
}
