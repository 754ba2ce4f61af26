package reduce

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
			for n := range 3*s.Lanes + 2 {
				On(s).Sum(f(n))
				On(s).Deviations(f(n), 1)
				On(s).Normalize(f(n), f(n), f(n), f(n), 1, 2, 3)
			}
		})
	}
}
