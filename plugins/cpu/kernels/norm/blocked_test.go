//go:build amd64

package norm

import (
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// TestLayerNormBlocked checks that the blocked result is the result of Norm, rounded.
func TestLayerNormBlocked(t *testing.T) {
	kerneltest.EachPool(t, func(t *testing.T, p *pool.Pool) {
		if !product.TakesBlocked(p, product.BFloat16) {
			return
		}
		r := kerneltest.RNG(22)
		for _, d := range [][2]int{{1, 32}, {33, 96}, {70, 768}, {40, 1280}} {
			rows, n := d[0], d[1]
			x, gamma, beta := kerneltest.Randoms(r, rows*n), kerneltest.Randoms(r, n), kerneltest.Randoms(r, n)
			want, got := make([]float32, rows*n), kerneltest.Lines(product.BlockedLen(rows, n))
			Normalize(
				p, Args{Dst: stored.F32(want), X: stored.F32(x), Gamma: stored.F32(gamma), Beta: stored.F32(beta), N: n,
					Eps:    1e-6,
					Center: true}, rows)
			LayerNormBlocked(p, got, x, gamma, beta, rows, n, 1e-6)
			for i, y := range product.UnpackBlocked(got, rows, n) {
				if y != product.RoundBF16(want[i]) {
					t.Fatalf("%d x %d: element %d is %v, blocked %v", rows, n, i, want[i], y)
				}
			}
		}
	}, product.EmulatedTiles()...)
}
