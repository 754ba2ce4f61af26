package vec_test

import (
	"math"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// TestDotsFew compares products with a few vectors with sums in float64, and checks that nothing else is written.
func TestDotsFew(t *testing.T) {
	r := kerneltest.RNG(5)
	kerneltest.EachPool(t, func(t *testing.T, p *pool.Pool) {
		s := p.Set
		if vec.On(s).DotsFew == nil {
			return
		}
		for range kerneltest.Some(80) {
			few, rows, k := 2+r.IntN(3), 1+r.IntN(14), 1+r.IntN(200)
			ld, ldx, ldd := k+r.IntN(5), k+r.IntN(5), rows+r.IntN(5)
			mat, x := kerneltest.Randoms(r, rows*ld), kerneltest.Randoms(r, few*ldx)
			got := make([]float32, few*ldd)
			for i := range got {
				got[i] = math.Float32frombits(kerneltest.GuardBits)
			}
			vec.On(s).DotsFew(got, ldd, mat, ld, rows, x, ldx, few, k)
			for at, y := range got {
				m, i := at/ldd, at%ldd
				if inside := i < rows; inside == kerneltest.IsGuard(y) {
					t.Fatalf("%s: %d vectors, %d rows of %d: element %d of vector %d (inside: %v) is %v", s.Name, few, rows, k,
						i, m, inside, y)
				} else if !inside {
					continue
				}
				want, size := 0.0, 0.0
				for j := range k {
					z := float64(mat[i*ld+j]) * float64(x[m*ldx+j])
					want, size = want+z, size+math.Abs(z)
				}
				if math.Abs(float64(y)-want) > 1e-6*size {
					t.Errorf("%s: %d vectors, %d rows of %d: element %d of vector %d is %v, want %v", s.Name, few, rows, k,
						i, m, y, want)
				}
			}
		}
	})
}
