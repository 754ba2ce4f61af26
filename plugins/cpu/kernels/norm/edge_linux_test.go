package norm

import (
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// TestOperandsEndWithMemory runs the routines of every set on operands that are exactly as long as the routines'
// contracts allow.
func TestOperandsEndWithMemory(t *testing.T) {
	for _, s := range isa.Available() {
		t.Run(s.Name, func(t *testing.T) {
			f := func(n int) []float32 { return kerneltest.Edge[float32](t, n) }
			for w, p := range []Passes{On(s).Passes, On(s).Narrow} {
				nr := 2 * s.Lanes >> w
				for keys := range 4 {
					p.ScoreMax(f(keys*nr), 2, f(nr))
					p.ScoreBiasMax(f(keys*nr), 2, f(nr), f(keys*nr), f(nr))
					p.ExpSum(f(keys*nr), f(nr), f(nr))
					p.ScaleRows(f(keys*nr), f(nr))
				}
			}
		})
	}
}
