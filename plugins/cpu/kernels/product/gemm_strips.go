package product

import (
	"unsafe"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// Products in strips of columns. A is packed once, by all workers, or read as it is stored. The task that computes a
// strip packs its columns of B, one block of k at a time, and multiplies all rows by them while they are in the
// second-level cache. So weights are widened once, and the widened values do not travel through memory. While a block
// of k is multiplied, the weights of the next are prefetched.

const (
	stripPanels = 4 // panels of B in a strip
	// panels of A that are multiplied by each panel of a strip in turn; half of a second-level cache of 512 KB holds
	// both
	stripBlock = 12
	stripRows  = 512 // rows that are packed at a time
)

// inStrips reports whether gemmStrips computes a single product.
func (g *GemmArgs) inStrips(p *pool.Pool) bool {
	s := p.Set
	switch {
	case g.Packed != nil || g.ABlocked != nil || g.CBlocked != nil:
		return false
	case g.M <= 4*On(s).MR:
		return true
	}
	return g.M <= 2*stripRows && PackingOf(s, g.Precision) != Tiled && pool.CeilDiv(g.N,
		On(s).NR) >= stripPanels*p.Threads()
}

func gemmStrips(p *pool.Pool, g *GemmArgs) {
	s := p.Set
	nr := On(s).NR
	way := PackingOf(s, g.Precision)
	panels := pool.CeilDiv(g.N, nr)
	// the last strips are narrow, so that all workers end at about the same time
	grain := 1 + (1<<16)/max(1, g.K*nr*g.M)
	for m := 0; m < g.M; m += stripRows {
		p.Shared.Reset()
		x := columnStrips{p: p, g: g, depth: g.depth(way), m: m, rows: min(stripRows, g.M-m)}
		x.high = g.stripHigh(p, x.rows)
		if !g.readsStored(s) {
			x.a = p.Shared.Floats(x.blocks() * x.block())
			pool.Split(p, x.blocks(), 1, stripPacking{x})
		}
		pool.Split(p, panels, grain, x)
	}
}

// stripHigh returns the number of rows of a block of A, of so many rows.
func (g *GemmArgs) stripHigh(p *pool.Pool, rows int) int {
	s := p.Set
	mr := On(s).MR
	if PackingOf(s, g.Precision) == Tiled {
		return rows
	}
	panels := pool.CeilDiv(rows, mr)
	return mr * min(stripBlock, pool.CeilDiv(panels, min(p.Threads(), pool.CeilDiv(panels, 2))))
}

// stripWidth returns the number of panels of B in a strip.
func (g *GemmArgs) stripWidth(s *isa.Set) int {
	if PackingOf(s, g.Precision) == Tiled {
		return 1
	}
	return stripPanels
}

// stripRoom returns how many floats of memory the packed columns of a strip take: one block of k, but all of k in
// tiles.
func (g *GemmArgs) stripRoom(s *isa.Set) int {
	nr := On(s).NR
	way := PackingOf(s, g.Precision)
	if way == Tiled {
		return nr*g.depth(way) + Spill
	}
	return stripPanels*nr*way.Depth(min(way.KSplit(g.K), g.K)) + Spill
}

// stripShared returns the memory that gemmStrips needs for up to M rows of A, in bytes.
func (g *GemmArgs) stripShared(s *isa.Set) int64 {
	mr := On(s).MR
	way := PackingOf(s, g.Precision)
	if way == Tiled {
		r := pool.FloatBytes(way.Rows(min(g.M, 4*mr))*g.depth(way) + Spill)
		return r
	}
	rows := min(g.M, stripRows) + stripBlock*mr
	return pool.FloatBytes(rows*g.depth(way) + pool.CeilDiv(rows, mr)*Spill)
}

// stripWorker returns the memory that each worker needs for it, in addition to the buffers of packB and tiles.
func (g *GemmArgs) stripWorker(s *isa.Set) int64 {
	nr := On(s).NR
	r := pool.FloatBytes(g.stripRoom(s), On(s).MR*nr)
	if PackingOf(s, g.Precision) != Tiled && g.Act != elementwise.Identity {
		r += pool.FloatBytes(min(g.M, stripRows) * stripPanels * nr) // a copy of the residual
	}
	return r
}

// columnStrips computes strips of rows [m, m+rows) of C.
type columnStrips struct {
	p             *pool.Pool
	g             *GemmArgs
	a             []float32 // blocks of `high` rows of A, packed; nil if readsStored is true
	depth         int       // GemmArgs.depth
	m, rows, high int
}

func (x *columnStrips) blocks() int { return pool.CeilDiv(x.rows, x.high) }

// block returns the distance from one block of A to the next.
func (x *columnStrips) block() int {
	return PackingOf(x.p.Set, x.g.Precision).Rows(x.high)*x.depth + Spill
}

// stripPacking packs blocks of A.
type stripPacking struct{ columnStrips }

func (x *stripPacking) Do(lo, hi, w int) {
	for b := lo; b < hi; b++ {
		r := b * x.high
		x.g.PackA(x.p.Set, x.p.Scratch(w), x.a[b*x.block():], 0, x.m+r, min(x.high, x.rows-r))
	}
}

// Do computes the columns of panels [lo, hi).
func (x *columnStrips) Do(lo, hi, w int) {
	s, g, sc := x.p.Set, x.g, x.p.Scratch(w)
	nr := On(s).NR
	way := PackingOf(s, g.Precision)
	kb, wide := way.KSplit(g.K), g.stripWidth(s)
	b := sc.Floats(g.stripRoom(s))
	buf := sc.Floats(s.Lanes*kb + way.Buffer(nr, kb))
	tile := sc.Floats(On(s).MR * nr)
	mark := sc.Mark()
	for panels := 0; lo < hi; lo += panels {
		panels = pool.CeilDiv(hi-lo, pool.CeilDiv(hi-lo, wide)) // strips of about equal width
		j, cols := lo*nr, min(panels*nr, g.N-lo*nr)
		if way == Tiled {
			for k := 0; k < g.K; k += kb {
				x.pack(b[panels*nr*way.Depth(k):], j, panels, k, buf)
			}
			g.Tiles(s, sc, 0, x.m, x.rows, j, cols, x.a, b, panels, 0)
			sc.Release(mark)
			continue
		}
		kept := g.keep(sc, 0, x.m, x.rows, j, cols)
		for k := 0; k == 0 || k < g.K; k += kb {
			if g.K > 0 {
				x.pack(b, j, panels, k, buf)
			}
			x.multiply(tile, j, cols, k, b, x.ahead(j, panels, hi, k+kb))
		}
		if g.Act != elementwise.Identity {
			g.epilogue(s, 0, x.m, x.rows, j, cols, kept)
		}
		sc.Release(mark)
	}
}

// pack packs the block of k that begins at k of so many panels of B.
func (x *columnStrips) pack(dst []float32, j, panels, k int, buf []float32) {
	s, g := x.p.Set, x.g
	nr := On(s).NR
	way := PackingOf(s, g.Precision)
	n := min(way.KSplit(g.K), g.K-k)
	together := 0
	if whole := min(panels, (g.N-j)/nr); whole > 0 && g.packsTogether(way) {
		together = whole
		g.packTogether(s, dst, 0, j, k, n, together, buf)
	}
	for q := together; q < panels; q++ {
		g.packB(s, way, dst[q*nr*way.Depth(n):], 0, j+q*nr, k, n, buf)
	}
}

// multiply adds the products of a block of k to columns [j, j+cols) of C. b has the packed panels.
func (x *columnStrips) multiply(tile []float32, j, cols, k int, b []float32, ahead prefetching) {
	s, g := x.p.Set, x.g
	nr := On(s).NR
	way := PackingOf(s, g.Precision)
	n := way.Depth(min(way.KSplit(g.K), g.K-k))
	for r := 0; r < x.rows; r += x.high {
		rows := min(x.high, x.rows-r)
		a := tail(x.a, r/x.high*x.block()+rows*way.Depth(k))
		for q := 0; q < cols; q += nr {
			g.multiplyPanel(s, tile, 0, x.m+r, rows, j+q, min(nr, cols-q), k, a, b[q*n:], nil, false, &ahead)
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
	n := pool.CeilDiv(x.rows, max(1, x.pieces))
	for range n {
		vec.On(s).PrefetchRows(x.at, 64, x.lines)
		x.at += x.stride
	}
	x.rows, x.pieces = x.rows-n, x.pieces-1
}

// ahead returns the weights that are packed next, after that many panels from column j on: those of the block of k that
// begins at k. Past the end of k, it returns the first block of the next panels, up to panel hi.
func (x *columnStrips) ahead(j, panels, hi, k int) (p prefetching) {
	s, g := x.p.Set, x.g
	nr := On(s).NR
	if k >= g.K {
		k, j = 0, j+panels*nr
	}
	cols := min(stripPanels*nr, min(hi*nr, g.N)-j)
	if vec.On(s).PrefetchRows == nil || !g.TransB || cols <= 0 || g.K == 0 {
		return p
	}
	values, size := g.B.Kind.Values(), g.B.Kind.Size()
	bytes := func(n int) int { return n / values * size }
	n := min(PackingOf(s, g.Precision).KSplit(g.K), g.K-k)
	p.at, p.stride = address(g.B)+uintptr(bytes(j*g.LDB+k)), uintptr(bytes(g.LDB))
	p.rows, p.lines = cols, pool.CeilDiv(bytes(n), 64)
	p.pieces = pool.CeilDiv(x.rows, On(s).MR) * panels
	return p
}

// address returns where the elements begin in memory.
func address(w stored.Values) uintptr {
	switch {
	case w.Kind.IsPacked():
		return uintptr(unsafe.Pointer(unsafe.SliceData(w.Bytes))) + uintptr(w.Start/w.Kind.Values()*w.Kind.Size())
	case w.Floats != nil:
		return uintptr(unsafe.Pointer(unsafe.SliceData(w.Floats)))
	case w.Halves != nil:
		return uintptr(unsafe.Pointer(unsafe.SliceData(w.Halves)))
	}
	return uintptr(unsafe.Pointer(unsafe.SliceData(w.Bytes)))
}
