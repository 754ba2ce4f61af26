package kernels

import (
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// TestOperandsEndWithMemoryvec runs the routines of every set on operands that are exactly as long as the routines'
// contracts allow.
func TestOperandsEndWithMemoryvec(t *testing.T) {
	for _, s := range isa.Available() {
		t.Run(s.Name, func(t *testing.T) {
			f := func(n int) []float32 { return edge[float32](t, n) }
			index := [16]int32{1, -1, 2, 0}
			for rows := 1; rows <= s.Lanes; rows++ {
				for _, blocks := range []int{1, 2, 3} {
					cols := blocks * s.Lanes
					vecOn(s).transpose(f((cols-1)*rows+s.Lanes), rows, f((rows-1)*(cols+1)+cols), cols+1, rows, cols)
				}
				vecOn(s).copyRows(f((rows-1)*3+s.Lanes), 3, f((rows-1)*5+s.Lanes), 5, rows)
				vecOn(s).gatherRows(f((rows-1)*3+s.Lanes), 3, f((rows-1)*5+3), 5, rows, index[:])
				for k := range 40 {
					vecOn(s).dotRows(f((rows-1)*2+1), 2, f((rows-1)*(k+1)+k), k+1, rows, f(k))
				}
			}
			for n := range 3*s.Lanes + 2 {
				vecOn(s).stencil(f(n), f(n+3), []int{3, 0}, 3, f(2), 1)
				vecOn(s).stencilEvens(f(n), f(2*n+3), []int{3, 0}, 3, f(2), 1)
				vecOn(s).stencilEach(f(n), f(n+3), []int{3, 0}, f(n+2), []int{0, 2}, f(n))
				vecOn(s).widenF16(f(n), edge[uint16](t, n))
				vecOn(s).widenBF16(f(n), edge[uint16](t, n))
				vecOn(s).narrowF16(edge[uint16](t, n), f(n))
				vecOn(s).narrowBF16(edge[uint16](t, n), f(n))
			}
		})
	}
}
