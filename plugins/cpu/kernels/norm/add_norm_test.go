package norm

import (
	"slices"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// TestAdd checks that the sum and its norm have the bits of a sum and of a norm of it, for every instruction set and
// number of threads, also if they overwrite their operands.
func TestAdd(t *testing.T) {
	kerneltest.EachPool(t, func(t *testing.T, p *pool.Pool) {
		r := kerneltest.RNG(7)
		for _, n := range []int{1, 7, 16, 100, 257, 768} {
			rows := 1 + r.IntN(40)
			x, residual := kerneltest.Randoms(r, rows*n), kerneltest.Randoms(r, rows*n)
			gamma, beta := kerneltest.Randoms(r, n), kerneltest.Randoms(r, n)
			sum, want := make([]float32, rows*n), make([]float32, rows*n)
			for i := range sum {
				sum[i] = x[i] + residual[i]
			}
			for _, center := range []bool{false, true} {
				Normalize(p, Args{Dst: stored.F32(want), X: stored.F32(sum), Gamma: stored.F32(gamma),
					Beta: stored.F32(beta), N: n, Eps: 1e-6, Center: center}, rows)
				for _, over := range []string{"neither", "sum over x", "sum over residual", "both", "both, crossed"} {
					a, checkA := kerneltest.Guarded(rows * n)
					b, checkB := kerneltest.Guarded(rows * n)
					copy(a, x)
					copy(b, residual)
					g := AddArgs{Sum: make([]float32, rows*n), Dst: make([]float32, rows*n), X: a, Residual: b,
						Gamma: gamma, Beta: beta, N: n, Eps: 1e-6, Center: center}
					switch over {
					case "sum over x":
						g.Sum = a
					case "sum over residual":
						g.Sum = b
					case "both":
						g.Sum, g.Dst = a, b
					case "both, crossed":
						g.Sum, g.Dst = b, a
					}
					Add(p, g, rows)
					checkA(t, "x")
					checkB(t, "residual")
					if !slices.Equal(g.Sum, sum) || !slices.Equal(g.Dst, want) {
						t.Errorf("%d rows of %d, center %v, %s: other bits than two steps give", rows, n, center, over)
					}
				}
			}
		}
	})
}
