//go:build amd64

package kernels

import "testing"

// TestLayerNormBlocked checks that the blocked result is that of Norm, rounded.
func TestLayerNormBlocked(t *testing.T) {
	eachPool(t, func(t *testing.T, p *Pool) {
		if !TakesBlocked(p, BFloat16) {
			return
		}
		r := rng(22)
		for _, d := range [][2]int{{1, 32}, {33, 96}, {70, 768}, {40, 1280}} {
			rows, n := d[0], d[1]
			x, gamma, beta := randoms(r, rows*n), randoms(r, n), randoms(r, n)
			want, got := make([]float32, rows*n), lines(BlockedLen(rows, n))
			Norm(
				p, NormArgs{Dst: F32(want), X: F32(x), Gamma: F32(gamma), Beta: F32(beta), N: n, Eps: 1e-6,
					Center: true}, rows)
			LayerNormBlocked(p, got, x, gamma, beta, rows, n, 1e-6)
			for i, y := range UnpackBlocked(got, rows, n) {
				if y != roundBF16(want[i]) {
					t.Fatalf("%d x %d: element %d is %v, blocked %v", rows, n, i, want[i], y)
				}
			}
		}
	}, EmulatedTiles()...)
}
