package product

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// Products that read rows of A as they are stored. To pack A takes as long as to multiply it by 17 columns, and a
// division into many blocks of columns would pack it for each.

// readsStored reports whether the product can read rows of A as they are stored. Other products pack A.
func (g *GemmArgs) readsStored(s *isa.Set) bool { return g.canReadStored(s) && g.LDA%lineOfRows != 0 }

func (g *GemmArgs) canReadStored(s *isa.Set) bool {
	return On(s).stored != nil && PackingOf(s, g.Precision) == Plain && !g.TransA && g.K > 0
}

// lineOfRows is a distance between rows, in floats, at which the same elements of all rows compete for a few lines of
// the first-level cache.
const lineOfRows = 1024

// spreads reports whether gemmPacked first copies A, so that readsStored becomes true.
func (g *GemmArgs) spreads(s *isa.Set, batch int) bool {
	return g.canReadStored(s) && g.LDA%lineOfRows == 0 && batch == 1 && g.Packed != nil && g.M <= stripRows
}

// spread copies A to the pool's shared memory, with gaps between rows.
func (g *GemmArgs) spread(p *pool.Pool) {
	p.Shared.Reset()
	ld := g.spreadLD()
	a := p.Shared.Floats(g.M * ld)
	pool.Split(p, g.M, pool.RowGrain(g.K), spreading{to: a, from: g.A, ld: ld, lda: g.LDA, k: g.K})
	g.A, g.LDA = a, ld
}

func (g *GemmArgs) spreadLD() int { return (g.K+15)/16*16 + 16 }

type spreading struct {
	to, from   []float32
	ld, lda, k int
}

func (x *spreading) Do(lo, hi, _ int) {
	for m := lo; m < hi; m++ {
		copy(x.to[m*x.ld:][:x.k], x.from[m*x.lda:])
	}
}

// leftOperand is A of a product, from some row and some element on.
type leftOperand struct {
	panel *Panel
	pairs bool
	a     []float32
	step  int       // floats from row to row of panels of equal height
	lda   int       // 0 if a is packed
	next  []float32 // the panel of B that comes next
}

// multiply is Panel.Gemm, Panel.Pairs or Panel.stored.
func (l *leftOperand) multiply(rows, k int, b, c []float32, ldc int, accumulate bool, bias, residual []float32,
	ldr int) {
	switch {
	case l.lda > 0:
		l.panel.stored(rows, k, l.a, l.lda, b, c, ldc, accumulate, bias, residual, ldr, l.next)
	case l.pairs:
		l.panel.Pairs(rows, k, l.a, b, c, ldc, accumulate, bias, residual, ldr)
	default:
		l.panel.Gemm(rows, k, l.a, b, c, ldc, accumulate, bias, residual, ldr)
	}
}

// tail returns a[at:], or nil if a is nil.
func tail(a []float32, at int) []float32 {
	if a == nil {
		return nil
	}
	return a[at:]
}

// taskSize is the least number of multiplications of a task that is one of many: about a microsecond.
const taskSize = 1 << 16

// smallB is the largest number of elements of a B that stays in the second-level cache, so that blocks of A can be as
// small as smallA elements: they stay in the first-level cache. Panels of a B of more than largeB elements are
// prefetched while the panel before them is multiplied.
const smallA, smallB, largeB = 1 << 12, 1 << 16, 1 << 17

// divideStored cuts a product that reads A as it is stored into blocks. All blocks of some columns are adjacent if
// there are more columns than rows, so that each worker reads a part of B, and all blocks of some rows otherwise.
func (b *gemmBlocks) divideStored(products int) {
	g, threads := b.g, b.p.Threads()
	want := 1 // number of tasks of a product
	if threads > 1 {
		// small tasks, so that no worker waits long for the slowest
		want = pool.CeilDiv(min(8*threads, max(threads, g.M*g.N*g.K*products/taskSize)), products)
	}
	mr := On(b.p.Set).MR
	least := pool.CeilDiv(g.M, blockPanels*mr) // blocks of rows
	most := max(least, pool.CeilDiv(2*g.M, mr))
	small := g.K*g.N <= smallB
	b.byColumns = b.own == nil && (g.N > g.M && !small || g.N > 4*g.M)
	if !b.byColumns {
		if small {
			least = max(least, g.M*min(g.K, KBlock)/smallA, min(want, g.M/(2*mr)))
		}
		if products == 1 && want > 1 {
			least = min(most, pool.CeilDiv(least, threads)*threads)
		}
	}
	b.pieces = min(b.width, pool.CeilDiv(want, least))
	b.across = min(most, max(least, pool.CeilDiv(want, b.pieces)))
	b.wide = pool.CeilDiv(b.width, b.pieces)
	b.pieces = pool.CeilDiv(b.width, b.wide)
}

// panelAfter returns where the panel of B begins that is multiplied after step t of GemmArgs.columns, in the block of k
// whose panels begin at atB.
func (g *GemmArgs) panelAfter(nr, panels, first, across, t, k, atB int) int {
	kb := Plain.KSplit(g.K)
	n := min(kb, g.K-k)
	switch {
	case t < across-1:
		return atB + (first+t)*nr*n
	case k+kb < g.K:
		return atB + (panels*n+(first+across-1)*min(kb, g.K-k-kb))*nr
	}
	return (first + across) % panels * min(kb, g.K) * nr
}
