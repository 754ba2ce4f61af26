package product

import (
	"fmt"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// Weights that are packed in advance change no bit of a product.
func TestKeptWeights(t *testing.T) {
	r := kerneltest.RNG(11)
	for range kerneltest.Some(60) {
		g := randomGemm(r, 1+r.IntN(40), 1+r.IntN(150), 1+r.IntN(1100), 1)
		g.StrideB = 0
		kerneltest.EachPool(t, func(t *testing.T, p *pool.Pool) {
			what := fmt.Sprintf("%s with %d threads: %s", p.Features(), p.Threads(), describe(g))
			want, kept := runGemm(t, p, g, what), *g
			kept.Packed = PackWeights(p, g)
			if got, most := pool.FloatBytes(len(kept.Packed.panels)), g.KeptSize(p); got > most {
				t.Errorf("%s: %d bytes are kept; KeptSize says %d", what, got, most)
			}
			for i, got := range runGemm(t, p, &kept, what) {
				if got != want[i] && (got == got || want[i] == want[i]) {
					t.Fatalf("%s: element %d is %v with packed weights and %v without", what, i, got, want[i])
				}
			}
		})
	}
}
