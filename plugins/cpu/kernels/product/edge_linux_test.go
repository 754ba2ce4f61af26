package product

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
			for _, p := range []Panel{On(s).Panel, On(s).Narrow} {
				for rows := 1; rows <= On(s).MR; rows++ {
					for _, k := range []int{0, 1, 2, 3, 4, 5, 9} {
						p.Gemm(rows, k, f(rows*k), f(p.NR*k), f(rows*p.NR), p.NR, true, f(p.NR), f(rows*p.NR), p.NR)
						if p.Pairs != nil {
							p.Pairs(rows, k, f(rows*k), f(p.NR*k), f(rows*p.NR), p.NR, true, f(p.NR), f(rows*p.NR),
								p.NR)
						}
					}
				}
			}
			for n := range 3*s.Lanes + 2 {
				On(s).round(f(n), f(n))
			}
		})
	}
}
