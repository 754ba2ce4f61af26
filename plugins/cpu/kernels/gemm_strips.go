package kernels

import (
	"unsafe"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// Products in strips of columns. A is packed once, by all workers. The task that computes a strip packs its columns of
// B, one block of k at a time, and multiplies all rows by them while they are in the second-level cache. So weights are
// widened once, and the widened values do not travel through memory. While a block of k is multiplied, the weights of
// the next are prefetched.

const (
	stripPanels = 4 // panels of B in a strip
	// panels of A that are multiplied by each panel of a strip in turn; half of a second-level cache of 512 KB holds
	// both
	stripBlock = 12
	stripRows  = 512 // rows that are packed at a time
)

// inStrips reports whether gemmStrips computes a single product.
func (g *GemmArgs) inStrips(p *Pool) bool {
	s := p.Set
	switch {
	case g.Packed != nil || g.ABlocked != nil || g.CBlocked != nil:
		return false
	case g.M <= 4*productOn(s).mr:
		return true
	}
	return g.M <= 2*stripRows && packingOf(s, g.Precision) != tiled && ceilDiv(g.N, productOn(s).nr) >= stripPanels*p.Threads()
}

func gemmStrips(p *Pool, g *GemmArgs) {
	s := p.Set
	way := packingOf(s, g.Precision)
	panels := ceilDiv(g.N, productOn(s).nr)
	// the last strips are narrow, so that all workers end at about the same time
	grain := 1 + (1<<16)/max(1, g.K*productOn(s).nr*g.M)
	for m := 0; m < g.M; m += stripRows {
		p.shared.reset()
		x := columnStrips{p: p, g: g, depth: g.depth(way), m: m, rows: min(stripRows, g.M-m)}
		x.high = g.stripHigh(p, x.rows)
		x.a = p.shared.floats(x.blocks() * x.block())
		split(p, x.blocks(), 1, stripPacking{x})
		split(p, panels, grain, x)
	}
}

// stripHigh returns the number of rows of a block of A, of so many rows.
func (g *GemmArgs) stripHigh(p *Pool, rows int) int {
	s := p.Set
	if packingOf(s, g.Precision) == tiled {
		return rows
	}
	panels := ceilDiv(rows, productOn(s).mr)
	return productOn(s).mr * min(stripBlock, ceilDiv(panels, min(p.Threads(), ceilDiv(panels, 2))))
}

// stripWidth returns the number of panels of B in a strip.
func (g *GemmArgs) stripWidth(s *isa.Set) int {
	if packingOf(s, g.Precision) == tiled {
		return 1
	}
	return stripPanels
}

// stripRoom returns how many floats of memory the packed columns of a strip take: one block of k, but all of k in
// tiles.
func (g *GemmArgs) stripRoom(s *isa.Set) int {
	way := packingOf(s, g.Precision)
	if way == tiled {
		return productOn(s).nr*g.depth(way) + spill
	}
	return stripPanels*productOn(s).nr*way.depth(min(way.kSplit(g.K), g.K)) + spill
}

// stripShared returns the memory that gemmStrips needs for up to M rows of A, in bytes.
func (g *GemmArgs) stripShared(s *isa.Set) int64 {
	way := packingOf(s, g.Precision)
	if way == tiled {
		r := floats(way.rows(min(g.M, 4*productOn(s).mr))*g.depth(way) + spill)
		return r
	}
	rows := min(g.M, stripRows) + stripBlock*productOn(s).mr
	return floats(rows*g.depth(way) + ceilDiv(rows, productOn(s).mr)*spill)
}

// stripWorker returns the memory that each worker needs for it, beside the buffers of packB and tiles.
func (g *GemmArgs) stripWorker(s *isa.Set) int64 {
	r := floats(g.stripRoom(s), productOn(s).mr*productOn(s).nr)
	if packingOf(s, g.Precision) != tiled && g.Act != Identity {
		r += floats(min(g.M, stripRows) * stripPanels * productOn(s).nr) // a copy of the residual
	}
	return r
}

// columnStrips computes strips of rows [m, m+rows) of C.
type columnStrips struct {
	p             *Pool
	g             *GemmArgs
	a             []float32 // blocks of `high` rows of A, packed
	depth         int       // GemmArgs.depth
	m, rows, high int
}

func (x *columnStrips) blocks() int { return ceilDiv(x.rows, x.high) }

// block returns the distance from one block of A to the next.
func (x *columnStrips) block() int {
	return packingOf(x.p.Set, x.g.Precision).rows(x.high)*x.depth + spill
}

// stripPacking packs blocks of A.
type stripPacking struct{ columnStrips }

func (x *stripPacking) do(lo, hi, w int) {
	for b := lo; b < hi; b++ {
		r := b * x.high
		x.g.packA(x.p.Set, x.p.scratch(w), x.a[b*x.block():], 0, x.m+r, min(x.high, x.rows-r))
	}
}

// do computes the columns of panels [lo, hi).
func (x *columnStrips) do(lo, hi, w int) {
	s, g, sc := x.p.Set, x.g, x.p.scratch(w)
	way := packingOf(s, g.Precision)
	kb, wide := way.kSplit(g.K), g.stripWidth(s)
	b := sc.floats(g.stripRoom(s))
	buf := sc.floats(s.Lanes*kb + way.buffer(productOn(s).nr, kb))
	tile := sc.floats(productOn(s).mr * productOn(s).nr)
	mark := sc.mark()
	for panels := 0; lo < hi; lo += panels {
		panels = ceilDiv(hi-lo, ceilDiv(hi-lo, wide)) // strips of about equal width
		j, cols := lo*productOn(s).nr, min(panels*productOn(s).nr, g.N-lo*productOn(s).nr)
		if way == tiled {
			for k := 0; k < g.K; k += kb {
				x.pack(b[panels*productOn(s).nr*way.depth(k):], j, panels, k, buf)
			}
			g.tiles(s, sc, 0, x.m, x.rows, j, cols, x.a, b, panels, 0)
			sc.release(mark)
			continue
		}
		kept := g.keep(sc, 0, x.m, x.rows, j, cols)
		for k := 0; k == 0 || k < g.K; k += kb {
			if g.K > 0 {
				x.pack(b, j, panels, k, buf)
			}
			x.multiply(tile, j, cols, k, b, x.ahead(j, panels, hi, k+kb))
		}
		if g.Act != Identity {
			g.epilogue(s, 0, x.m, x.rows, j, cols, kept)
		}
		sc.release(mark)
	}
}

// pack packs the block of k that begins at k of so many panels of B.
func (x *columnStrips) pack(dst []float32, j, panels, k int, buf []float32) {
	s, g := x.p.Set, x.g
	way := packingOf(s, g.Precision)
	n := min(way.kSplit(g.K), g.K-k)
	together := 0
	if whole := min(panels, (g.N-j)/productOn(s).nr); whole > 0 && g.packsTogether(way) {
		together = whole
		g.packTogether(s, dst, 0, j, k, n, together, buf)
	}
	for q := together; q < panels; q++ {
		g.packB(s, way, dst[q*productOn(s).nr*way.depth(n):], 0, j+q*productOn(s).nr, k, n, buf)
	}
}

// multiply adds the products of a block of k to columns [j, j+cols) of C. b is what pack has packed.
func (x *columnStrips) multiply(tile []float32, j, cols, k int, b []float32, ahead prefetching) {
	s, g := x.p.Set, x.g
	way := packingOf(s, g.Precision)
	n := way.depth(min(way.kSplit(g.K), g.K-k))
	for r := 0; r < x.rows; r += x.high {
		rows := min(x.high, x.rows-r)
		a := x.a[r/x.high*x.block()+rows*way.depth(k):]
		for q := 0; q < cols; q += productOn(s).nr {
			g.multiplyPanel(s, tile, 0, x.m+r, rows, j+q, min(productOn(s).nr, cols-q), k, a, b[q*n:], false, &ahead)
		}
	}
}

// prefetching is memory that is prefetched piece by piece.
type prefetching struct {
	at, stride uintptr // rows begin at at, stride bytes apart
	// rows that are left, their length in cache lines, and the number of pieces that are left
	rows, lines, pieces int
}

// some prefetches a piece. It does nothing if x is nil.
func (x *prefetching) some(s *isa.Set) {
	if x == nil {
		return
	}
	n := ceilDiv(x.rows, max(1, x.pieces))
	for range n {
		vecOn(s).prefetchRows(x.at, 64, x.lines)
		x.at += x.stride
	}
	x.rows, x.pieces = x.rows-n, x.pieces-1
}

// ahead returns the weights that are packed next, after so many panels from column j on: those of the block of k that
// begins at k or, if that is past the end, the first block of the next panels, up to panel hi.
func (x *columnStrips) ahead(j, panels, hi, k int) (p prefetching) {
	s, g := x.p.Set, x.g
	if k >= g.K {
		k, j = 0, j+panels*productOn(s).nr
	}
	cols := min(stripPanels*productOn(s).nr, min(hi*productOn(s).nr, g.N)-j)
	if vecOn(s).prefetchRows == nil || !g.TransB || cols <= 0 || g.K == 0 {
		return p
	}
	values, size := g.B.kind.Values(), g.B.kind.Size()
	bytes := func(n int) int { return n / values * size }
	n := min(packingOf(s, g.Precision).kSplit(g.K), g.K-k)
	p.at, p.stride = g.B.address()+uintptr(bytes(j*g.LDB+k)), uintptr(bytes(g.LDB))
	p.rows, p.lines = cols, ceilDiv(bytes(n), 64)
	p.pieces = ceilDiv(x.rows, productOn(s).mr) * panels
	return p
}

// address returns where the elements begin in memory.
func (w Weights) address() uintptr {
	switch {
	case w.kind.IsPacked():
		return uintptr(unsafe.Pointer(unsafe.SliceData(w.byte))) + uintptr(w.start/w.kind.Values()*w.kind.Size())
	case w.f32 != nil:
		return uintptr(unsafe.Pointer(unsafe.SliceData(w.f32)))
	case w.half != nil:
		return uintptr(unsafe.Pointer(unsafe.SliceData(w.half)))
	}
	return uintptr(unsafe.Pointer(unsafe.SliceData(w.byte)))
}
