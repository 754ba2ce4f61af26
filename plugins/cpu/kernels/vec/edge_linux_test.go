package vec_test

import (
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// TestOperandsEndWithMemory runs the routines of every set on operands that are exactly as long as the routines'
// contracts allow.
func TestOperandsEndWithMemory(t *testing.T) {
	for _, s := range isa.Available() {
		t.Run(s.Name, func(t *testing.T) {
			f := func(n int) []float32 { return kerneltest.Edge[float32](t, n) }
			index := [16]int32{1, -1, 2, 0}
			for rows := 1; rows <= s.Lanes; rows++ {
				for _, blocks := range []int{1, 2, 3} {
					cols := blocks * s.Lanes
					vec.On(s).Transpose(f((cols-1)*rows+s.Lanes), rows, f((rows-1)*(cols+1)+cols), cols+1, rows, cols)
				}
				vec.On(s).CopyRows(f((rows-1)*3+s.Lanes), 3, f((rows-1)*5+s.Lanes), 5, rows)
				for wide := 4; wide <= s.Lanes; wide *= 2 {
					vec.On(s).CopyRuns(f((rows-1)*3+2+wide), 3, f(min(rows-1, 2)+4+wide), []int{0, 1, 2}[:min(rows, 3)],
						min(rows-1, 2), []int{0, 4, 2, 0}, wide)
				}
				vec.On(s).GatherRows(f((rows-1)*3+s.Lanes), 3, f((rows-1)*5+3), 5, rows, index[:])
				for k := range 40 {
					vec.On(s).DotRows(f((rows-1)*2+1), 2, f((rows-1)*(k+1)+k), k+1, rows, f(k))
					for few := 2; few <= 4 && vec.On(s).DotsFew != nil && k > 0; few++ {
						vec.On(s).DotsFew(f((few-1)*(rows+1)+rows), rows+1, f((rows-1)*(k+1)+k), k+1, rows,
							f((few-1)*(k+2)+k), k+2, few, k)
					}
				}
			}
			for n := 1; n < 20 && vec.On(s).StencilPixels != nil; n++ {
				vec.On(s).StencilPixels(f(n*s.Lanes), f((n-1)*24+3+s.Lanes), []int{3, 0}, 3, f(2*s.Lanes),
					f(s.Lanes), 24)
			}
			for n := s.Lanes; n < 11*s.Lanes && vec.On(s).StencilLines != nil; n += s.Lanes {
				masks := [3][]float32{f(2 * s.Lanes), f(2 * s.Lanes), f(2 * s.Lanes)}
				vec.On(s).StencilLines(f(2*(n+1)+n), n+1, f(2*n+n+3), n, []int{3, 0}, 3, f(2), 1, masks, n, 3)
				vec.On(s).StencilEvenLines(f(2*(n+1)+n), n+1, f(2*n+2*n+3), n, []int{3, 0}, 3, f(2), 1, masks, n, 3)
			}
			for n := range 3*s.Lanes + 2 {
				vec.On(s).Stencil(f(n), f(n+3), []int{3, 0}, 3, f(2), 1)
				vec.On(s).StencilEvens(f(n), f(2*n+3), []int{3, 0}, 3, f(2), 1)
				vec.On(s).StencilEach(f(n), f(n+3), []int{3, 0}, f(n+2), []int{0, 2}, f(n))
				vec.On(s).WidenF16(f(n), kerneltest.Edge[uint16](t, n))
				vec.On(s).WidenBF16(f(n), kerneltest.Edge[uint16](t, n))
				vec.On(s).NarrowF16(kerneltest.Edge[uint16](t, n), f(n))
				vec.On(s).NarrowBF16(kerneltest.Edge[uint16](t, n), f(n))
			}
		})
	}
}
