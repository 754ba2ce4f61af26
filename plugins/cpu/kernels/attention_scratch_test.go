package kernels

import (
	"fmt"
	"testing"
)

func TestAttentionScratch(t *testing.T) {
	r := rng(9)
	for _, c := range [][7]int{{2, 6, 2, 3, 1200, 40, 37}, {1, 8, 1, 4, 600, 64, 64}, {1, 2, 2, 1, 40, 16, 16},
		{2, 4, 2, 300, 500, 33, 20}, {1, 2, 1, 70, 17, 20, 7}} {
		for range some(3) {
			grow := r.IntN(2)
			g := randomAttention(r, c[0], c[1], c[2], c[3], c[4], c[5], c[6], MaskCausal)
			g.Precision = []Precision{Float32, BFloat16}[r.IntN(2)]
			eachNewPool(t, func(t *testing.T, p *Pool) {
				need := (&AttentionArgs{B: g.B + grow, Heads: g.Heads, KVHeads: g.KVHeads, SQ: g.SQ + 5*grow,
					SK: g.SK + 100*grow, DK: g.DK, DV: g.DV, Precision: g.Precision}).ScratchSize(p)
				reserve(t, p, need)
				Attention(p, g)
				fits(t, p, need, 0, fmt.Sprintf("%s with %d threads: %v %v", p.Features(), p.Threads(), c, g.Precision))
			})
		}
	}
}
