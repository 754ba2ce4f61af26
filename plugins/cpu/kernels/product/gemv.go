package product

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// dots reports whether gemv computes a product: one or two rows, and a B stored as [N, K].
func (g *GemmArgs) dots() bool {
	return g.M <= 2 && g.TransB && !g.TransA && g.K > 0 && g.Precision == Float32
}

// gemv computes a product that dots accepts. It takes dot products and packs nothing.
func gemv(p *pool.Pool, g *GemmArgs, batch int) {
	x := gemvStripsOf(p, g)
	pool.Split(p, batch*x.strips, 1+(1<<15)/(x.strip*g.K), x)
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
	s, sc, g := x.p.Set, x.p.Scratch(w), x.g
	buf, dots := sc.Floats(g.K), sc.Floats(gemvRun)
	pairs := vec.On(s).DotPairs
	for t := lo; t < hi; {
		i, j, count := t/x.strips, t%x.strips*x.strip, 1
		direct := g.M == 1 && g.Residual == nil // the residual may be C itself
		if g.M == 1 {                           // many strips in one call, which reads B in long streams
			count = min(hi-t, x.strips-t%x.strips)
		}
		if !direct {
			count = min(count, gemvRun/x.strip)
		}
		t += count
		n := min(count*x.strip, g.N-j)
		b := g.B.From(i*g.StrideB + j*g.LDB)
		both := g.M == 2 && b.Floats != nil && pairs != nil // B is read once
		if both {
			a := g.A[i*g.StrideA:]
			pairs(dots[:n], dots[n:2*n], b.Floats, g.LDB, a[:g.K], a[g.LDA:][:g.K])
		}
		for m := range g.M {
			a := g.A[i*g.StrideA+m*g.LDA:][:g.K]
			to := g.C[i*g.StrideC+m*g.LDC+j:][:n]
			c := to
			if !direct {
				c = dots[:n]
			}
			if both {
				c = dots[m*n:][:n]
			} else if b.Floats != nil {
				vec.On(s).DotRows(c, 1, b.Floats, g.LDB, n, a)
			} else if !b.DotHalves(s, c, g.LDB, a) {
				for r := range n {
					vec.On(s).DotRows(c[r:], 1, b.Row(s, r*g.LDB, g.K, buf), g.K, 1, a)
				}
			}
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
				copy(to, c)
			}
		}
	}
}
