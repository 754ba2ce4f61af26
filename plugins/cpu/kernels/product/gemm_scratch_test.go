package product

import (
	"fmt"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

func TestGemmScratch(t *testing.T) {
	r := kerneltest.RNG(7)
	sizes := []int{1, 2, 3, 17, 33, 64, 100, 300, 1100}
	size := func() int { return sizes[r.IntN(len(sizes))] }
	for range kerneltest.Some(40) {
		grow := r.IntN(2) // 1: reserve memory for a larger product
		g := randomGemm(r, size(), size(), size(), 1+r.IntN(2)*r.IntN(4))
		kerneltest.EachNewPool(t, func(t *testing.T, p *pool.Pool) {
			need := (&GemmArgs{M: g.M + grow*size(), N: g.N + grow*size(), K: g.K, Batch: g.Batch + 2*grow, Act: g.Act,
				TransA: g.TransA, Precision: g.Precision}).ScratchSize(p)
			kerneltest.Reserve(t, p, need)
			what := fmt.Sprintf("%s with %d threads: %s", p.Features(), p.Threads(), describe(g))
			c := *g
			runGemm(t, p, &c, what)
			kerneltest.Fits(t, p, need, keptPanels(p), what)
		})
	}
}

// keptPanels returns the size of the packed panels that workers keep.
func keptPanels(p *pool.Pool) (bytes int64) {
	for _, panels := range pool.Keep[ownPanels](p).panels {
		bytes += pool.FloatBytes(cap(panels))
	}
	return bytes
}
