package product

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// Products of many rows and a B stored as [N, K], such as the weights of a linear layer. Here the kernel multiplies
// elements of B by vectors with one element each of nr rows of A, so that rows of B are only widened. Other products
// transpose B, which takes longer than widening it. The kernel computes C transposed. A strip of the transposed C stays
// in the second-level cache until its sums are complete.

const (
	rowGroups = 8   // groups of mr rows of B in a strip
	rowsBlock = 128 // rows of A in a block: a block of k of them fills half of a second-level cache of 512 KB
	rowsGap   = 16  // floats between widened rows, so that they do not share cache sets
)

// byRows reports whether gemmRows computes a single product. It does not if more than half of the last vector would be
// empty, because that costs more than it saves, if there are so few columns that the workers would not end together, or
// if the sums are so short that transposing C takes longer than transposing B. The bits are those of other products.
func (g *GemmArgs) byRows(p *pool.Pool) bool {
	s := p.Set
	mr := On(s).MR
	return On(s).rowsProduct != nil && g.TransB && g.Packed == nil && PackingOf(s, g.Precision) == Plain && g.K > 0 &&
		g.M > mr && g.M <= 2*stripRows && paddedRows(s, g.M)-g.M <= s.Lanes/2 && g.N >= 4*mr*p.Threads() &&
		g.K >= 4*min(g.M, 2*rowsBlock)
}

func gemmRows(p *pool.Pool, g *GemmArgs) {
	s := p.Set
	for m := 0; m < g.M; m += stripRows {
		p.Shared.Reset()
		x := rowProduct{p: p, g: g, m: m, rows: min(stripRows, g.M-m), kb: Plain.KSplit(g.K)}
		x.wide = paddedRows(s, x.rows)
		x.a = p.Shared.Floats(x.wide*g.K + Spill)
		pool.Split(p, pool.CeilDiv(x.rows, On(s).NR)*pool.CeilDiv(g.K, x.kb), 1, rowPacking{x})
		pool.Split(p, pool.CeilDiv(g.N, On(s).MR), 1, x)
	}
}

// paddedRows returns the width of all panels for so many rows of A. The last panel may be narrow.
func paddedRows(s *isa.Set, rows int) int { return pool.CeilDiv(rows, s.Lanes) * s.Lanes }

// rowProduct computes rows [m, m+rows) of C.
type rowProduct struct {
	p                 *pool.Pool
	g                 *GemmArgs
	a                 []float32 // blocks of k of panels of nr rows of A
	m, rows, wide, kb int       // wide: paddedRows(rows)
}

// rowPacking packs panels of A, for each block of k.
type rowPacking struct{ rowProduct }

func (x *rowPacking) Do(lo, hi, _ int) {
	s, g := x.p.Set, x.g
	panels := pool.CeilDiv(x.rows, On(s).NR)
	for t := lo; t < hi; t++ {
		k, r := t/panels*x.kb, t%panels*On(s).NR
		n, rows := min(x.kb, g.K-k), min(On(s).NR, x.rows-r)
		nr := min(On(s).NR, x.wide-r)
		dst := x.a[k*x.wide+r*n:]
		if g.TransA {
			packCols(s, nr, dst, stored.F32(g.A[k*g.LDA+x.m+r:]), g.LDA, rows, n)
		} else {
			PackColsTrans(s, nr, dst, stored.F32(g.A[(x.m+r)*g.LDA+k:]), g.LDA, rows, n, nil)
		}
	}
}

// Do computes the columns of C from lo*mr up to hi*mr.
func (x *rowProduct) Do(lo, hi, w int) {
	sc := x.p.Scratch(w)
	mark := sc.Mark()
	for groups := 0; lo < hi; lo += groups {
		groups = pool.CeilDiv(hi-lo, pool.CeilDiv(hi-lo, rowGroups))
		x.strip(sc, lo*On(x.p.Set).MR, groups)
		sc.Release(mark)
	}
}

// strip computes the columns of C from j on, in so many groups of mr.
func (x *rowProduct) strip(sc *pool.Scratch, j, groups int) {
	s, g := x.p.Set, x.g
	on := On(s)
	mr, nr := on.MR, on.NR
	cols := min(groups*mr, g.N-j)
	first := g.residualFirst()
	sums := sc.Floats(groups * mr * x.wide)
	if first {
		PackColsTrans(s, x.wide, sums, stored.F32(g.Residual[x.m*g.LDR+j:]), g.LDR, x.rows, cols, nil)
	}
	ld := min(x.kb, g.K) + rowsGap
	blocks := pool.CeilDiv(x.rows, rowsBlock)
	high := pool.CeilDiv(pool.CeilDiv(x.rows, nr), blocks) * nr
	kept := 1 // groups of widened rows
	if blocks > 1 {
		kept = groups
	}
	wide := sc.Floats(kept * mr * ld)
	for k := 0; k < g.K; k += x.kb {
		n := min(x.kb, g.K-k)
		for r := 0; r < x.rows; r += high {
			h := min(high, x.wide-r)
			a := x.a[k*x.wide+r*n:]
			for t := range groups {
				b, ldb := wide[t%kept*mr*ld:], ld
				rows := min(mr, cols-t*mr)
				if at := (j+t*mr)*g.LDB + k; g.B.Kind == dtype.F32 && rows == mr {
					b, ldb = g.B.Floats[at:], g.LDB
				} else if r == 0 {
					g.B.Rows(s, at, g.LDB, rows, n, b, ld)
				}
				whole := h / nr
				var ahead rowsAhead
				if r == 0 {
					ahead = x.ahead(j, groups, t+1, k, whole)
				}
				c, add := sums[t*mr*x.wide+r:], k > 0 || first
				if whole > 0 {
					on.rowsProduct(n, b, ldb, a, c, x.wide, whole, add, ahead)
				}
				if h%nr > 0 {
					on.Narrow.rowsProduct(n, b, ldb, a[whole*nr*n:], c[whole*nr:], x.wide, 1, add, rowsAhead{})
				}
			}
		}
	}
	x.finish(sc, sums, j, cols)
}

// rowsAhead is where the next rows of B lie in memory: the address of the first, the bytes of 32 elements, and those
// from row to row.
type rowsAhead struct {
	at        uintptr
	step, row int
}

// ahead returns the rows of group t of a strip. If t is the number of groups, it returns the rows that are multiplied
// after the strip. A product prefetches one of them for each panel; ahead prefetches the others.
func (x *rowProduct) ahead(j, groups, t, k, panels int) rowsAhead {
	s, g := x.p.Set, x.g
	mr := On(s).MR
	if t == groups {
		t, k = 0, k+x.kb
	}
	if k >= g.K {
		j, k = j+groups*mr, 0
	}
	if j += t * mr; j >= g.N {
		return rowsAhead{}
	}
	bytes := func(n int) int { return n * g.B.Kind.Size() / g.B.Kind.Values() }
	next := rowsAhead{address(g.B) + uintptr(bytes(j*g.LDB+k)), bytes(32), bytes(g.LDB)}
	prefetch := vec.On(s).PrefetchRows
	for i := panels; i < min(mr, g.N-j); i++ {
		prefetch(next.at+uintptr(i*next.row), 64, pool.CeilDiv(bytes(min(x.kb, g.K-k)), 64))
	}
	return next
}

// residualFirst reports whether the residual is added before the second block of k, as in GemmArgs.multiplyPanel, and
// not last.
func (g *GemmArgs) residualFirst() bool {
	return g.Residual != nil && g.Act == elementwise.Identity && g.K > Plain.KSplit(g.K)
}

// finish applies the epilogue of the product and transposes the sums of a strip. An activation is applied before the
// transposition, because rows are then long, and a call for each row of a strip costs as much as 50 elements.
func (x *rowProduct) finish(sc *pool.Scratch, sums []float32, j, cols int) {
	s, g := x.p.Set, x.g
	if g.Act != elementwise.Identity {
		for q := range cols {
			row := sums[q*x.wide:][:x.rows]
			if g.Bias != nil {
				for i, b := range row {
					row[i] = b + g.Bias[j+q]
				}
			}
			elementwise.Apply(s, g.Act, row, row)
		}
	}
	const vectors = 2
	ld := paddedRows(s, cols)
	c := sc.Floats(vectors*s.Lanes*ld + Spill)
	transpose, sum := vec.On(s).Transpose, elementwise.On(s).Binary[elementwise.Add]
	for r := 0; r < x.rows; r += vectors * s.Lanes {
		n := min(vectors*s.Lanes, x.wide-r)
		for q := 0; q < cols; q += s.Lanes {
			transpose(c[q:], ld, sums[q*x.wide+r:], x.wide, min(s.Lanes, cols-q), n)
		}
		for i := range min(n, x.rows-r) {
			row := c[i*ld:][:cols]
			if g.Bias != nil && g.Act == elementwise.Identity {
				sum(row, row, g.Bias[j:][:cols])
			}
			if g.Residual != nil && !g.residualFirst() {
				sum(row, row, g.Residual[(x.m+r+i)*g.LDR+j:][:cols])
			}
			copy(g.C[(x.m+r+i)*g.LDC+j:], row)
		}
	}
}

// rowsShared returns the memory that gemmRows needs for up to M rows of A, in bytes.
func (g *GemmArgs) rowsShared(s *isa.Set) int64 {
	if On(s).rowsProduct == nil {
		return 0
	}
	return pool.FloatBytes(paddedRows(s, min(g.M, stripRows))*g.K + Spill)
}

// rowsWorker returns the memory that each worker needs for it.
func (g *GemmArgs) rowsWorker(s *isa.Set) int64 {
	if On(s).rowsProduct == nil {
		return 0
	}
	cols := rowGroups * On(s).MR
	return pool.FloatBytes(cols*paddedRows(s, min(g.M, stripRows)), cols*(Plain.KSplit(g.K)+rowsGap),
		2*s.Lanes*paddedRows(s, cols)+Spill)
}
