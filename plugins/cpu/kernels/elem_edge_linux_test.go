package kernels

import (
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// TestOperandsEndWithMemoryelem runs the routines of every set on operands that are exactly as long as the routines'
// contracts allow.
func TestOperandsEndWithMemoryelem(t *testing.T) {
	for _, s := range isa.Available() {
		t.Run(s.Name, func(t *testing.T) {
			f := func(n int) []float32 { return edge[float32](t, n) }
			for n := range 3*s.Lanes + 2 {
				for _, op := range allUnaries() {
					apply(s, op, f(n), f(n))
				}
				for _, g := range elemOn(s).binary {
					if g != nil {
						g(f(n), f(n), f(n))
					}
				}
				for _, g := range elemOn(s).compare {
					g(edge[uint8](t, n), f(n), f(n))
				}
				for _, g := range elemOn(s).test {
					g(edge[uint8](t, n), f(n))
				}
				elemOn(s).choose(f(n), edge[uint8](t, n), f(n), f(n))
				for _, g := range elemOn(s).bits {
					g(edge[uint8](t, n), edge[uint8](t, n), edge[uint8](t, n))
				}
			}
		})
	}
}
