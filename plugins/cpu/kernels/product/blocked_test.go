//go:build amd64

package product

import (
	"fmt"
	"math"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// toBlocked stores a matrix in the blocked layout.
func toBlocked(s *isa.Set, x []float32, rows, cols int) []float32 {
	q := NewBlocked(kerneltest.Lines(BlockedLen(rows, cols)), rows, cols)
	for i := range q.data { // padding
		q.data[i] = float32(math.NaN())
	}
	half := rows / 2
	q.Put(s, 0, 0, x, cols, half, cols)
	q.Put(s, half, 0, x[half*cols:], cols, rows-half, cols)
	return q.data
}

// eachTiles runs f for every instruction set that has tiles, or emulates them.
func eachTiles(t *testing.T, f func(t *testing.T, p *pool.Pool)) {
	t.Helper()
	eachTiled(t, func(t *testing.T, p *pool.Pool) {
		if TakesBlocked(p, BFloat16) {
			f(t, p)
		}
	})
}

// TestGemmBlocked checks that a product of a blocked matrix and packed weights has the same bits as the product that
// packs its operands, and that a blocked result is the plain result, rounded, unless the activation is gelu.
func TestGemmBlocked(t *testing.T) {
	eachTiles(t, func(t *testing.T, p *pool.Pool) {
		r := kerneltest.RNG(21)
		for _, d := range [][3]int{{1, 32, 32}, {32, 64, 32}, {33, 96, 288}, {70, 40, 640}, {128, 320, 1056},
			{200, 288, 64}} {
			m, n, k := d[0], d[1], d[2]
			for _, act := range []elementwise.UnaryOp{elementwise.Identity, elementwise.Gelu} {
				g := &GemmArgs{M: m, N: n, K: k, A: kerneltest.Randoms(r, m*k), LDA: k,
					B: stored.F32(kerneltest.Randoms(r, n*k)), LDB: k,
					TransB: r.IntN(2) == 0,
					LDC:    n, Bias: kerneltest.Randoms(r, n), Act: act, Precision: BFloat16}
				if !g.TransB {
					g.LDB = n
				}
				what := fmt.Sprint(describe(g))
				want := runGemm(t, p, g, what)
				blocked := *g
				blocked.A, blocked.ABlocked = nil, toBlocked(p.Set, g.A, m, k)
				blocked.Packed, blocked.B = PackWeights(p, g), stored.Values{}
				got := runGemm(t, p, &blocked, what)
				for i := range want {
					if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
						t.Fatalf("%s: element %d is %v, from blocked %v", what, i, want[i], got[i])
					}
				}
				if n%TileSide != 0 {
					continue
				}
				out, check := kerneltest.Guarded(BlockedLen(m, n) + 16)
				clear(out)
				for misaligned(&out[0]) != 0 {
					out = out[1:]
				}
				blocked.C, blocked.CBlocked = nil, out[:BlockedLen(m, n)]
				Gemm(p, &blocked)
				check(t, what)
				for i, x := range UnpackBlocked(blocked.CBlocked, m, n) {
					if act == elementwise.Identity && x != RoundBF16(want[i]) || !kerneltest.Near(x, float64(want[i]),
						5e-5, 1.0/256) {
						t.Fatalf("%s: element %d is %v, blocked %v", what, i, want[i], x)
					}
				}
			}
		}
	})
}
