package attention

import (
	"fmt"
	"math"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
)

// TestAttentionMaskedValues checks that infinities and NaN in a value affect the queries that attend to its key, and no
// others.
func TestAttentionMaskedValues(t *testing.T) {
	inf := float32(math.Inf(1))
	eachTiledPool(t, func(t *testing.T, p *pool.Pool) {
		r := kerneltest.RNG(4)
		for _, mask := range []MaskKind{MaskCausal, MaskSliding, MaskCustom, MaskBias} {
			for _, c := range [][7]int{{1, 1, 1, 5, 9, 8, 8}, {1, 4, 2, 33, 300, 16, 16}, {1, 2, 1, 70, 17, 20, 7}} {
				for try := range kerneltest.Some(4) {
					g := randomAttention(r, c[0], c[1], c[2], c[3], c[4], c[5], c[6], mask)
					for range 1 + try {
						g.V.Floats[r.IntN(len(g.V.Floats))] = []float32{inf, -inf, float32(math.NaN())}[r.IntN(3)]
					}
					for _, g.Precision = range []product.Precision{product.Float32, product.BFloat16} {
						want := attention64(g)
						Attend(p, g)
						kerneltest.Compare(t, fmt.Sprint("mask ", mask, " sizes ", c, " window ", g.Window, " ",
							g.Precision),
							g.Out, want, 4e-3, 1e-5)
					}
				}
			}
		}
	})
}
