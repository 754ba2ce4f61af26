package norm

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/reduce"
)

// BackwardArgs are the arguments of Backward, for rows of N elements. X, DY and DX have Rows rows, the others N
// elements. DX may be X or DY.
type BackwardArgs struct {
	DX, DGamma, DBeta, X, Gamma, DY []float32

	Rows, N int
	Eps     float32
	Center  bool
}

// Rows are divided into parts of the same rows for any number of threads. Each part adds up the gradients of gamma and
// beta of its rows, and these sums are added in order.
const (
	backwardPart  = 128 // most rows of a part
	backwardParts = 32  // parts, if they have so few rows
)

func (g *BackwardArgs) part() int {
	return max(1, min(backwardPart, pool.CeilDiv(g.Rows, backwardParts)))
}

// Backward computes the gradients of a norm over the last axis, of x, gamma and beta. Each row of x and dy is read once
// from memory.
func Backward(p *pool.Pool, g BackwardArgs) {
	if n := g.Rows * g.N; min(len(g.DX), len(g.X), len(g.DY)) < n ||
		min(len(g.DGamma), len(g.DBeta), len(g.Gamma)) < g.N {
		panic("BUG: norm: a slice is short")
	}
	if g.N == 0 {
		return
	}
	parts := pool.CeilDiv(g.Rows, g.part())
	p.Shared.Reset()
	sums := p.Shared.Floats(2 * parts * g.N)
	pool.Split(p, parts, 1+pool.Grain/(g.part()*g.N), backwardRows{g, p, sums})
	pool.Split(p, g.N, pool.RowGrain(2*parts), backwardSums{g, p, sums, parts})
}

// BackwardScratch returns what Backward needs.
func BackwardScratch(rows, n int) pool.Size {
	g := BackwardArgs{Rows: rows, N: n}
	return pool.Size{Shared: pool.FloatBytes(2 * pool.CeilDiv(rows, g.part()) * n),
		Worker: pool.FloatBytes(n, n, n, elementwise.Spread, elementwise.Spread)}
}

type backwardRows struct {
	BackwardArgs
	p    *pool.Pool
	sums []float32 // of parts: N for gamma and N for beta
}

func (g *backwardRows) Do(lo, hi, worker int) {
	s, sc, n := g.p.Set, g.p.Scratch(worker), g.N
	hat, slope, product := sc.Floats(n), sc.Floats(n), sc.Floats(n)
	ones := elementwise.SpreadTo(sc.Floats(elementwise.Spread), 1, elementwise.Spread)
	zeros := sc.Floats(elementwise.Spread)
	clear(zeros)
	binary := elementwise.On(s).Binary
	// affine is dst = (x-mean)*scale + shift.
	affine := func(dst, x []float32, mean, scale, shift float32) {
		for i := 0; i < n; i += elementwise.Spread {
			m := min(elementwise.Spread, n-i)
			reduce.On(s).Normalize(dst[i:i+m], x[i:i+m], ones[:m], zeros[:m], mean, scale, shift)
		}
	}
	average := func(x []float32) float32 {
		sum := 0.0
		for i := 0; i < n; i += reduce.Block {
			sum += float64(reduce.On(s).Sum(x[i:min(n, i+reduce.Block)]))
		}
		return float32(sum / float64(n))
	}
	for part := lo; part < hi; part++ {
		dgamma, dbeta := g.sums[2*part*n:][:n], g.sums[(2*part+1)*n:][:n]
		clear(dgamma)
		clear(dbeta)
		for r := part * g.part(); r < min(g.Rows, (part+1)*g.part()); r++ {
			x, dy, dx := g.X[r*n:(r+1)*n], g.DY[r*n:(r+1)*n], g.DX[r*n:(r+1)*n]
			mean, scale, shift := moments(s, x, g.Eps, g.Center)
			affine(hat, x, mean, scale, shift)
			binary[elementwise.Mul](product, dy, hat)
			binary[elementwise.Add](dgamma, dgamma, product)
			binary[elementwise.Add](dbeta, dbeta, dy)
			binary[elementwise.Mul](product, product, g.Gamma[:n])
			by := average(product)
			binary[elementwise.Mul](slope, dy, g.Gamma[:n])
			base := float32(0)
			if g.Center {
				base = average(slope)
			}
			affine(hat, hat, 0, by, 0)
			binary[elementwise.Sub](slope, slope, hat)
			affine(dx, slope, base, scale, 0)
		}
	}
}

type backwardSums struct {
	BackwardArgs
	p     *pool.Pool
	sums  []float32
	parts int
}

// Do adds up columns [lo, hi) of the parts.
func (g *backwardSums) Do(lo, hi, _ int) {
	add := elementwise.On(g.p.Set).Binary[elementwise.Add]
	dgamma, dbeta := g.DGamma[lo:hi], g.DBeta[lo:hi]
	clear(dgamma)
	clear(dbeta)
	for part := range g.parts {
		add(dgamma, dgamma, g.sums[2*part*g.N:][lo:hi])
		add(dbeta, dbeta, g.sums[(2*part+1)*g.N:][lo:hi])
	}
}
