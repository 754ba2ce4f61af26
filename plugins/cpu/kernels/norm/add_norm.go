package norm

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/reduce"
)

// AddArgs are the arguments of Add, for rows of N elements. Gamma and Beta have N elements. Sum and Dst may be X and
// Residual, in any order, but not the same slice.
type AddArgs struct {
	Sum, Dst, X, Residual, Gamma, Beta []float32

	N      int
	Eps    float32
	Center bool
}

// Add writes X + Residual to Sum and the norm of it to Dst. A row of the sum is in the first-level cache when its norm
// is computed, so it is not read from memory again. The results have the bits of elementwise.Binary and Normalize.
func Add(p *pool.Pool, g AddArgs, rows int) {
	if n := rows * g.N; min(len(g.Sum), len(g.Dst), len(g.X), len(g.Residual)) < n ||
		min(len(g.Gamma), len(g.Beta)) < g.N {
		panic("BUG: norm: a slice is short")
	}
	if g.N > 0 {
		pool.Split(p, rows, pool.RowGrain(g.N), addRows{g, p})
	}
}

type addRows struct {
	AddArgs
	p *pool.Pool
}

// addedAtOnce is how many elements are added before their norms are computed. They stay in the first-level cache.
const addedAtOnce = 1 << 11

func (g *addRows) Do(lo, hi, _ int) {
	s, n := g.p.Set, g.N
	high := max(1, addedAtOnce/n)
	for r := lo; r < hi; r += high {
		end := min(hi, r+high) * n
		sum := g.Sum[r*n : end]
		elementwise.On(s).Binary[elementwise.Add](sum, g.X[r*n:end], g.Residual[r*n:end])
		normRows(s, g.Dst[r*n:end], sum, g.Gamma[:n], g.Beta[:n], g.Eps, g.Center)
	}
}

// normRows computes the norms of rows of len(gamma) elements.
func normRows(s *isa.Set, dst, x, gamma, beta []float32, eps float32, center bool) {
	n := len(gamma)
	if f := reduce.On(s).NormRows; f != nil && f(dst, x, gamma, beta, n, eps, center) {
		return
	}
	for at := 0; at < len(x); at += n {
		normRow(s, dst[at:at+n], x[at:at+n], gamma, beta, eps, center)
	}
}
