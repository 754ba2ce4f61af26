package kernels

import (
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// TestOperandsEndWithMemoryproduct runs the routines of every set on operands that are exactly as long as the routines'
// contracts allow.
func TestOperandsEndWithMemoryproduct(t *testing.T) {
	for _, s := range isa.Available() {
		t.Run(s.Name, func(t *testing.T) {
			f := func(n int) []float32 { return edge[float32](t, n) }
			for _, p := range []panel{productOn(s).panel, productOn(s).narrow} {
				for rows := 1; rows <= productOn(s).mr; rows++ {
					for _, k := range []int{0, 1, 2, 3, 4, 5, 9} {
						p.gemm(rows, k, f(rows*k), f(p.nr*k), f(rows*p.nr), p.nr, true, f(p.nr), f(rows*p.nr), p.nr)
						if p.pairs != nil {
							p.pairs(rows, k, f(rows*k), f(p.nr*k), f(rows*p.nr), p.nr, true, f(p.nr), f(rows*p.nr),
								p.nr)
						}
					}
				}
			}
			for n := range 3*s.Lanes + 2 {
				productOn(s).round(f(n), f(n))
			}
		})
	}
}
