package kernels

import (
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// TestOperandsEndWithMemorynorm runs the routines of every set on operands that are exactly as long as the routines'
// contracts allow.
func TestOperandsEndWithMemorynorm(t *testing.T) {
	for _, s := range isa.Available() {
		t.Run(s.Name, func(t *testing.T) {
			f := func(n int) []float32 { return edge[float32](t, n) }
			for w, p := range []passes{normOn(s).passes, normOn(s).narrow} {
				nr := 2 * s.Lanes >> w
				for keys := range 4 {
					p.scoreMax(f(keys*nr), 2, f(nr))
					p.scoreBiasMax(f(keys*nr), 2, f(nr), f(keys*nr), f(nr))
					p.expSum(f(keys*nr), f(nr), f(nr))
					p.scaleRows(f(keys*nr), f(nr))
				}
			}
		})
	}
}
