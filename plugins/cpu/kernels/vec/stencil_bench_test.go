package vec_test

import (
	"fmt"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// BenchmarkStencil adds up multiples of rows of n elements, which may end within a vector.
func BenchmarkStencil(b *testing.B) {
	s := isa.Available()[len(isa.Available())-1]
	for _, taps := range []int{2, 9} {
		for _, n := range []int{24, 32, 56, 100} {
			src, dst := kerneltest.Randoms(kerneltest.RNG(1), 9*n), make([]float32, n)
			at, w := make([]int, taps), kerneltest.Randoms(kerneltest.RNG(2), taps)
			for i := range at {
				at[i] = i * n
			}
			b.Run(fmt.Sprint(taps, "x", n), func(b *testing.B) {
				for b.Loop() {
					vec.On(s).Stencil(dst, src, at, at[taps-1], w, 1)
				}
			})
		}
	}
}
