package vec_test

import (
	"slices"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// TestDotPairs checks that products with two vectors have the bits of those with one.
func TestDotPairs(t *testing.T) {
	r := kerneltest.RNG(5)
	kerneltest.EachPool(t, func(t *testing.T, p *pool.Pool) {
		s := p.Set
		if vec.On(s).DotPairs == nil {
			return
		}
		for range kerneltest.Some(40) {
			rows, k := 1+r.IntN(6), 1+r.IntN(200)
			ld := k + r.IntN(5)
			mat, x, y := kerneltest.Randoms(r, rows*ld), kerneltest.Randoms(r, k), kerneltest.Randoms(r, k)
			var got, want [2][]float32
			for i := range got {
				got[i], want[i] = make([]float32, rows), make([]float32, rows)
			}
			vec.On(s).DotPairs(got[0], got[1], mat, ld, x, y)
			vec.On(s).DotRows(want[0], 1, mat, ld, rows, x)
			vec.On(s).DotRows(want[1], 1, mat, ld, rows, y)
			if !slices.Equal(got[0], want[0]) || !slices.Equal(got[1], want[1]) {
				t.Errorf("%s: %d rows of %d are %v, want %v", s.Name, rows, k, got, want)
			}
		}
	})
}
