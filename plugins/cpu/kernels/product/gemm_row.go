package product

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// Products of one row and a B stored as [K, N], such as the weights of a recurrent layer. Each row of B is used once,
// so that packing B takes longer than the product. So B is read as it is stored. A strip of C is the sum of the strips
// of B's rows, each times an element of A; vec.Routines.Stencil computes such sums.

const (
	rowStrip = 64 // columns in a strip: four vectors of the widest set
	rowRun   = 8  // strips that are computed at a time
)

// oneRow reports whether gemmRow computes a product.
func (g *GemmArgs) oneRow(p *pool.Pool) bool {
	return g.M == 1 && !g.TransB && g.ABlocked == nil && g.CBlocked == nil && g.Residual == nil &&
		g.B.Floats != nil && (!g.TransA || g.LDA == 1) && g.K > 0 && g.N >= p.Set.Lanes &&
		PackingOf(p.Set, g.Precision) == Plain && !vec.On(p.Set).StencilsInGo
}

// gemmRow computes a product that oneRow accepts.
func gemmRow(p *pool.Pool, g *GemmArgs, batch int) {
	x := pool.Keep[rowProducts](p)
	x.p, x.g, x.strips, x.kb = p, g, pool.CeilDiv(g.N, rowStrip), Plain.KSplit(g.K)
	if x.at[1] != g.LDB {
		for t := range x.at {
			x.at[t] = t * g.LDB
		}
	}
	p.Share(batch*x.strips, 1+(1<<15)/(rowStrip*g.K), x)
}

// rowScratch returns what gemmRow needs.
func rowScratch(p *pool.Pool, g *GemmArgs) pool.Size {
	return pool.Size{Worker: pool.FloatBytes(min(g.N, rowRun*rowStrip), p.Set.Lanes)}
}

// rowProducts computes strips of C: those of the first product of a batch, then those of the next.
type rowProducts struct {
	p          *pool.Pool
	g          *GemmArgs
	strips, kb int         // strips in a product, and rows of B that are summed before the sum is added to C
	at         [KBlock]int // where these rows begin
}

// Do computes strips [lo, hi).
func (x *rowProducts) Do(lo, hi, w int) {
	g, sc := x.g, x.p.Scratch(w)
	for lo < hi {
		i, first := lo/x.strips, lo%x.strips
		n := min(hi-lo, x.strips-first, rowRun)
		x.columns(sc, i, first*rowStrip, min(n*rowStrip, g.N-first*rowStrip))
		lo += n
	}
}

// columns computes columns [j, j+n) of product i.
func (x *rowProducts) columns(sc *pool.Scratch, i, j, n int) {
	s, g := x.p.Set, x.g
	mark := sc.Mark()
	defer sc.Release(mark)
	whole := n / s.Lanes * s.Lanes
	c := g.C[i*g.StrideC+j:][:n]
	var last []float32 // the columns that fill no vector, with some before them
	sums := sc.Floats(n)
	if whole < n {
		last = sc.Floats(s.Lanes)
	}
	add := elementwise.On(s).Binary[elementwise.Add]
	for k := 0; k < g.K; k += x.kb {
		rows := min(x.kb, g.K-k)
		a, b, at := g.A[i*g.StrideA+k:][:rows], g.B.Floats[i*g.StrideB+k*g.LDB:], x.at[:rows]
		to := c
		if k > 0 {
			to = sums
		}
		if most := at[rows-1]; whole > 0 {
			vec.On(s).Stencil(to[:whole], b[j:], at, most, a, 0)
		}
		if last != nil {
			vec.On(s).Stencil(last, b[j+n-s.Lanes:], at, at[rows-1], a, 0)
			copy(to[whole:], last[s.Lanes-(n-whole):])
		}
		if k > 0 {
			add(c, c, sums)
		}
	}
	if g.Bias != nil {
		add(c, c, g.Bias[j:][:n])
	}
	if g.Act != elementwise.Identity {
		elementwise.Apply(s, g.Act, c, c)
	}
}
