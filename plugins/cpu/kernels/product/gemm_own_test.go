package product

import (
	"math"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// TestGemmOwnPanels is TestGemm for several products in a row with a small B, of which each worker packs its own copy.
func TestGemmOwnPanels(t *testing.T) {
	eachTiled(t, func(t *testing.T, p *pool.Pool) {
		r := kerneltest.RNG(12)
		for _, s := range [][3]int{{195, 33, 40}, {200, 100, 700}, {64 * 3, 1, 17}, {211, 70, 0}, {333, 129, 65}} {
			for range kerneltest.Some(4) {
				g := randomGemm(r, s[0], s[1], s[2], 1)
				what := describe(g)
				kerneltest.Compare(t, what, runGemm(t, p, g, what), gemm64(g), 1e-6*math.Sqrt(float64(g.K))+2e-6, 1e-5)
			}
		}
	})
	kerneltest.SameForAnyThreads(t, func(p *pool.Pool) []float32 {
		g := randomGemm(kerneltest.RNG(13), 260, 50, 600, 1)
		return runGemm(t, p, g, "threads")
	})
}

// TestGemmOwnProducts is TestGemm and TestGemmScratch for batches in which one worker computes a whole product.
func TestGemmOwnProducts(t *testing.T) {
	r := kerneltest.RNG(14)
	for _, s := range [][3]int{{19, 37, 40}, {3, 5, 700}, {130, 33, 17}, {1, 16, 1}, {15, 68, 64}} {
		for range kerneltest.Some(3) {
			g := randomGemm(r, s[0], s[1], s[2], ownProducts*3)
			kerneltest.EachNewPool(t, func(t *testing.T, p *pool.Pool) {
				need := g.ScratchSize(p)
				kerneltest.Reserve(t, p, need)
				c, what := *g, describe(g)
				kerneltest.Compare(t, what, runGemm(t, p, &c, what), gemm64(g), 1e-6*math.Sqrt(float64(g.K))+2e-6, 1e-5)
				kerneltest.Fits(t, p, need, keptPanels(p), what)
			})
		}
	}
	kerneltest.SameForAnyThreads(t, func(p *pool.Pool) []float32 {
		g := randomGemm(kerneltest.RNG(15), 30, 50, 600, ownProducts*2)
		return runGemm(t, p, g, "threads")
	})
}
