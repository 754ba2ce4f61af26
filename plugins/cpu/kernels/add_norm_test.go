package kernels

import (
	"slices"
	"testing"
)

// TestAddNorm checks that the sum and its norm have the bits of a sum and of a norm of it, for every instruction set
// and number of threads.
func TestAddNorm(t *testing.T) {
	eachPool(t, func(t *testing.T, p *Pool) {
		r := rng(7)
		for _, n := range []int{1, 7, 16, 100, 257, 768} {
			rows := 1 + r.IntN(40)
			x, residual, gamma, beta := randoms(r, rows*n), randoms(r, rows*n), randoms(r, n), randoms(r, n)
			sum, want := make([]float32, rows*n), make([]float32, rows*n)
			for i := range sum {
				sum[i] = x[i] + residual[i]
			}
			for _, center := range []bool{false, true} {
				Norm(p, NormArgs{Dst: F32(want), X: F32(sum), Gamma: F32(gamma), Beta: F32(beta), N: n, Eps: 1e-6,
					Center: center}, rows)
				s, checkSum := guarded(rows * n)
				y, checkNorm := guarded(rows * n)
				AddNorm(p, AddNormArgs{Sum: s, Dst: y, X: x, Residual: residual, Gamma: gamma, Beta: beta, N: n,
					Eps: 1e-6, Center: center}, rows)
				checkSum(t, "the sum")
				checkNorm(t, "the norm")
				if !slices.Equal(s, sum) || !slices.Equal(y, want) {
					t.Errorf("%d rows of %d, center %v: other bits than two steps give", rows, n, center)
				}
			}
		}
	})
}
