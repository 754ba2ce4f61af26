package kernels

// AddNormArgs are the arguments of AddNorm, for rows of N elements. Gamma and Beta have N elements.
type AddNormArgs struct {
	Sum, Dst, X, Residual, Gamma, Beta []float32

	N      int
	Eps    float32
	Center bool
}

// AddNorm writes X + Residual to Sum and the norm of it to Dst. A row of the sum is in the first-level cache when its
// norm is computed, so it is not read from memory again. The results have the bits of Binary and Norm.
func AddNorm(p *Pool, g AddNormArgs, rows int) {
	if n := rows * g.N; min(len(g.Sum), len(g.Dst), len(g.X), len(g.Residual)) < n ||
		min(len(g.Gamma), len(g.Beta)) < g.N {
		panic("BUG: AddNorm: a slice is short")
	}
	if g.N > 0 {
		split(p, rows, rowGrain(g.N), addNorm{g, p})
	}
}

type addNorm struct {
	AddNormArgs
	p *Pool
}

func (g *addNorm) do(lo, hi, _ int) {
	s, n := g.p.isa, g.N
	for r := lo; r < hi; r++ {
		sum := g.Sum[r*n : (r+1)*n]
		s.binary[Add](sum, g.X[r*n:(r+1)*n], g.Residual[r*n:(r+1)*n])
		normRow(s, g.Dst[r*n:(r+1)*n], sum, g.Gamma[:n], g.Beta[:n], g.Eps, g.Center)
	}
}
