package elementwise

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
				for _, op := range allUnaries() {
					Apply(s, op, f(n), f(n))
				}
				for _, g := range On(s).Binary {
					if g != nil {
						g(f(n), f(n), f(n))
					}
				}
				for _, g := range On(s).compare {
					g(kerneltest.Edge[uint8](t, n), f(n), f(n))
				}
				for _, g := range On(s).test {
					g(kerneltest.Edge[uint8](t, n), f(n))
				}
				if n > 0 {
					MulAddRows(s, f(3*n), f(3*n), n, f(3), f(3))
				}
				On(s).choose(f(n), kerneltest.Edge[uint8](t, n), f(n), f(n))
				for _, g := range On(s).bits {
					g(kerneltest.Edge[uint8](t, n), kerneltest.Edge[uint8](t, n), kerneltest.Edge[uint8](t, n))
				}
			}
		})
	}
}
