package attention

import (
	"fmt"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
)

func TestAttentionScratch(t *testing.T) {
	r := kerneltest.RNG(9)
	for _, c := range [][7]int{{2, 6, 2, 3, 1200, 40, 37}, {1, 8, 1, 4, 600, 64, 64}, {1, 2, 2, 1, 40, 16, 16},
		{2, 4, 2, 300, 500, 33, 20}, {1, 2, 1, 70, 17, 20, 7}} {
		for range kerneltest.Some(3) {
			grow := r.IntN(2)
			g := randomAttention(r, c[0], c[1], c[2], c[3], c[4], c[5], c[6], MaskCausal)
			g.Precision = []product.Precision{product.Float32, product.BFloat16}[r.IntN(2)]
			kerneltest.EachNewPool(t, func(t *testing.T, p *pool.Pool) {
				need := (&Args{B: g.B + grow, Heads: g.Heads, KVHeads: g.KVHeads, SQ: g.SQ + 5*grow,
					SK: g.SK + 100*grow, DK: g.DK, DV: g.DV, Precision: g.Precision}).ScratchSize(p)
				kerneltest.Reserve(t, p, need)
				Attend(p, g)
				kerneltest.Fits(t, p, need, 0, fmt.Sprintf("%s with %d threads: %v %v", p.Features(), p.Threads(), c,
					g.Precision))
			})
		}
	}
}
