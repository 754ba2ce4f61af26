//go:build amd64

package kernels

import (
	"fmt"
	"math"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// lines returns n floats, aligned to a cache line.
func lines(n int) []float32 {
	x := make([]float32, n+16)
	for misaligned(&x[0]) != 0 {
		x = x[1:]
	}
	return x[:n]
}

// toBlocked stores a matrix in the blocked layout, and fromBlocked reads one back as rows of floats.
func toBlocked(s *isa.Set, x []float32, rows, cols int) []float32 {
	q := newBlocked(lines(BlockedLen(rows, cols)), rows, cols)
	for i := range q.data { // padding
		q.data[i] = float32(math.NaN())
	}
	half := rows / 2
	q.put(s, 0, 0, x, cols, half, cols)
	q.put(s, half, 0, x[half*cols:], cols, rows-half, cols)
	return q.data
}

func fromBlocked(data []float32, rows, cols int) []float32 {
	q := newBlocked(data, rows, cols)
	out := make([]float32, 0, rows*cols)
	for r := range rows {
		for k := 0; k < cols; k += tileSide {
			for _, x := range q.data[q.at(r, k):][:tileSide/2] {
				u := math.Float32bits(x)
				out = append(out, math.Float32frombits(u<<16), math.Float32frombits(u&^0xffff))
			}
		}
	}
	return out
}

// eachTiles runs f for every instruction set that has tiles, or emulates them.
func eachTiles(t *testing.T, f func(t *testing.T, p *Pool)) {
	t.Helper()
	eachTiled(t, func(t *testing.T, p *Pool) {
		if p.TakesBlocked(BFloat16) {
			f(t, p)
		}
	})
}

// TestGemmBlocked checks that a product of a blocked matrix and packed weights has the same bits as the product that
// packs its operands, and that a blocked result is the plain result, rounded, unless the activation is gelu.
func TestGemmBlocked(t *testing.T) {
	eachTiles(t, func(t *testing.T, p *Pool) {
		r := rng(21)
		for _, d := range [][3]int{{1, 32, 32}, {32, 64, 32}, {33, 96, 288}, {70, 40, 640}, {128, 320, 1056},
			{200, 288, 64}} {
			m, n, k := d[0], d[1], d[2]
			for _, act := range []UnaryOp{Identity, Gelu} {
				g := &GemmArgs{M: m, N: n, K: k, A: randoms(r, m*k), LDA: k, B: F32(randoms(r, n*k)), LDB: k,
					TransB: r.IntN(2) == 0,
					LDC:    n, Bias: randoms(r, n), Act: act, Precision: BFloat16}
				if !g.TransB {
					g.LDB = n
				}
				what := fmt.Sprint(describe(g))
				want := runGemm(t, p, g, what)
				blocked := *g
				blocked.A, blocked.ABlocked = nil, toBlocked(p.Set, g.A, m, k)
				blocked.Packed, blocked.B = PackWeights(p, g), Weights{}
				got := runGemm(t, p, &blocked, what)
				for i := range want {
					if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
						t.Fatalf("%s: element %d is %v, from blocked %v", what, i, want[i], got[i])
					}
				}
				if n%tileSide != 0 {
					continue
				}
				out, check := guarded(BlockedLen(m, n) + 16)
				clear(out)
				for misaligned(&out[0]) != 0 {
					out = out[1:]
				}
				blocked.C, blocked.CBlocked = nil, out[:BlockedLen(m, n)]
				Gemm(p, &blocked)
				check(t, what)
				for i, x := range fromBlocked(blocked.CBlocked, m, n) {
					if act == Identity && x != roundBF16(want[i]) || !near(x, float64(want[i]), 5e-5, 1.0/256) {
						t.Fatalf("%s: element %d is %v, blocked %v", what, i, want[i], x)
					}
				}
			}
		}
	})
}

// TestLayerNormBlocked checks that the blocked result is that of Norm, rounded.
func TestLayerNormBlocked(t *testing.T) {
	eachTiles(t, func(t *testing.T, p *Pool) {
		r := rng(22)
		for _, d := range [][2]int{{1, 32}, {33, 96}, {70, 768}, {40, 1280}} {
			rows, n := d[0], d[1]
			x, gamma, beta := randoms(r, rows*n), randoms(r, n), randoms(r, n)
			want, got := make([]float32, rows*n), lines(BlockedLen(rows, n))
			Norm(
				p, NormArgs{Dst: F32(want), X: F32(x), Gamma: F32(gamma), Beta: F32(beta), N: n, Eps: 1e-6,
					Center: true}, rows)
			LayerNormBlocked(p, got, x, gamma, beta, rows, n, 1e-6)
			for i, y := range fromBlocked(got, rows, n) {
				if y != roundBF16(want[i]) {
					t.Fatalf("%d x %d: element %d is %v, blocked %v", rows, n, i, want[i], y)
				}
			}
		}
	})
}

// TestGridAttentionBlocked checks that the blocked result is the plain one, rounded.
func TestGridAttentionBlocked(t *testing.T) {
	eachTiles(t, func(t *testing.T, p *Pool) {
		if attnOn(p.Set).attend == nil { // a pool that emulates tiles
			p.Set = emulatePanels(p.Set)
		}
		r := rng(23)
		for _, c := range []struct{ b, gh, gw, heads, dim, win int }{{1, 8, 8, 2, 32, 3}, {2, 5, 37, 3, 64, 0},
			{1, 20, 19, 3, 96, 14}} {
			g := randomGrid(r, c.b, c.gh, c.gw, c.heads, c.dim, c.win, true, true)
			g.Precision = BFloat16
			want := runGrid(t, p, g)
			rows, cols := c.b*c.gh*c.gw, c.heads*c.dim
			g.Out, g.OutBlocked = nil, lines(BlockedLen(rows, cols))
			GridAttention(p, g)
			for i, x := range fromBlocked(g.OutBlocked, rows, cols) {
				if x != roundBF16(want[i]) {
					t.Fatalf("%+v: element %d is %v, blocked %v", c, i, want[i], x)
				}
			}
		}
	})
}
