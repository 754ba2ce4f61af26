package product

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

const (
	// The largest number of rows for which dot products take less time than packing B for the same sums. Sets whose
	// panels of A have fewer rows take less time with gemmRows from there on.
	mostDots = 12
	// The largest number for matrices that are worth keeping packed; see Keeps.
	mostSmallDots = 4
)

// dots reports whether gemv computes a product: a few rows, and a B stored as [N, K]. It reads no values, and not
// whether B is packed in advance, because the bits must not depend on that.
func (g *GemmArgs) dots(s *isa.Set) bool {
	most := 2
	if g.together(s) {
		most = smallDots(s)
		if g.N*g.K > keptSmall {
			most = min(mostDots, On(s).MR)
		}
	}
	return g.M <= most && g.TransB && !g.TransA && g.K > 0 && g.Precision == Float32
}

// together reports whether gemv multiplies several rows at a time, so that B is read once for them.
func (g *GemmArgs) together(s *isa.Set) bool {
	return g.M >= 2 && g.B.Kind == dtype.F32 && vec.On(s).DotsFew != nil
}

// smallDots returns the largest number of rows of which gemv computes products with small matrices of f32.
func smallDots(s *isa.Set) int {
	if vec.On(s).DotsFew == nil {
		return 2
	}
	return mostSmallDots
}

// gemv computes a product that dots accepts. It takes dot products and packs nothing.
func gemv(p *pool.Pool, g *GemmArgs, batch int) {
	x := gemvStripsOf(p, g)
	pool.Split(p, batch*x.strips, 1+(1<<15)/(x.strip*g.K*g.M), x)
}

func gemvStripsOf(p *pool.Pool, g *GemmArgs) gemvStrips {
	strip := g.dotStrip()
	return gemvStrips{p, g, strip, (g.N + strip - 1) / strip}
}

type gemvStrips struct {
	p      *pool.Pool
	g      *GemmArgs
	strip  int // columns
	strips int // in a row of C
}

const (
	gemvStrip = 32  // the largest number of columns in a strip; see dotStrip
	gemvRun   = 512 // the largest number of columns that wait for the residual to be added
)

func (x *gemvStrips) Do(lo, hi, w int) {
	sc, g := x.p.Scratch(w), x.g
	buf, dots := sc.Floats(g.K), sc.Floats(gemvRun)
	few := g.together(x.p.Set)
	direct := g.Residual == nil // it may be C itself
	for t := lo; t < hi; {
		i, j, count := t/x.strips, t%x.strips*x.strip, 1
		if g.M == 1 || few { // many strips in one call, which reads B in long streams
			count = min(hi-t, x.strips-t%x.strips)
		}
		if !direct {
			count = min(count, gemvRun/x.strip/g.M)
		}
		t += count
		n := min(count*x.strip, g.N-j)
		c, ldc := g.C[i*g.StrideC+j:], g.LDC
		if !direct {
			c, ldc = dots, n
		}
		if few {
			x.few(c, ldc, i, j, n)
		} else {
			x.each(c, ldc, i, j, n, buf)
		}
		for m := range g.M {
			x.finish(c[m*ldc:][:n], i, m, j, direct)
		}
	}
}

// few multiplies all rows by columns [j, j+n) of product i.
func (x *gemvStrips) few(c []float32, ldc, i, j, n int) {
	s, g := x.p.Set, x.g
	multiply := vec.On(s).DotsFew
	for at := 0; at < n; at += x.strip {
		b, cols := g.B.Floats[i*g.StrideB+(j+at)*g.LDB:], min(x.strip, n-at)
		for m, h := 0, 0; m < g.M; m += h {
			h = g.fewTogether(s, g.M-m)
			multiply(c[m*ldc+at:], ldc, b, g.LDB, cols, g.A[i*g.StrideA+m*g.LDA:], g.LDA, h, g.K)
		}
	}
}

// fewTogether returns how many rows are multiplied together if so many are left, at least two. The routine for four
// rows with 16 registers reads these for every second column, so they must stay in the first-level cache.
func (g *GemmArgs) fewTogether(s *isa.Set, left int) int {
	most := 4
	if s.Lanes < 16 && most*g.K >= 8<<10 {
		most = 3
	}
	return left / pool.CeilDiv(left, most)
}

// each multiplies one row after the other by columns [j, j+n) of product i.
func (x *gemvStrips) each(c []float32, ldc, i, j, n int, buf []float32) {
	s, g := x.p.Set, x.g
	b := g.B.From(i*g.StrideB + j*g.LDB)
	for m := range g.M {
		a, to := g.A[i*g.StrideA+m*g.LDA:][:g.K], c[m*ldc:][:n]
		if b.Floats != nil {
			vec.On(s).DotRows(to, 1, b.Floats, g.LDB, n, a)
		} else if !b.DotHalves(s, to, g.LDB, a) {
			for r := range n {
				vec.On(s).DotRows(to[r:], 1, b.Row(s, r*g.LDB, g.K, buf), g.K, 1, a)
			}
		}
	}
}

// finish applies the epilogue to c, which is columns [j, j+len(c)) of row m of product i. direct: c is part of C.
func (x *gemvStrips) finish(c []float32, i, m, j int, direct bool) {
	s, g, n := x.p.Set, x.g, len(c)
	if g.Bias != nil {
		elementwise.On(s).Binary[elementwise.Add](c, c, g.Bias[j:j+n])
	}
	if g.Act != elementwise.Identity {
		elementwise.Apply(s, g.Act, c, c)
	}
	if g.Residual != nil {
		elementwise.On(s).Binary[elementwise.Add](c, c, g.Residual[i*g.StrideR+m*g.LDR+j:][:n])
	}
	if !direct {
		copy(g.C[i*g.StrideC+m*g.LDC+j:], c)
	}
}
