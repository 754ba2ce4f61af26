package kernels

import (
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// TestOperandsEndWithMemoryreduce runs the routines of every set on operands that are exactly as long as the routines'
// contracts allow.
func TestOperandsEndWithMemoryreduce(t *testing.T) {
	for _, s := range isa.Available() {
		t.Run(s.Name, func(t *testing.T) {
			f := func(n int) []float32 { return edge[float32](t, n) }
			for n := range 3*s.Lanes + 2 {
				reduceOn(s).sum(f(n))
				reduceOn(s).deviations(f(n), 1)
				reduceOn(s).normalize(f(n), f(n), f(n), f(n), 1, 2, 3)
			}
		})
	}
}
