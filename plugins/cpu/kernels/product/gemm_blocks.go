package product

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// gemmPacked packs as much of B as the pool's packedLimit allows, all workers together, and then cuts the output into
// blocks.
func gemmPacked(p *pool.Pool, g *GemmArgs, batch int) {
	s := p.Set
	nr := On(s).NR
	depth := g.depth(PackingOf(s, g.Precision))
	if g.spreads(s, batch) {
		g.spread(p)
	}
	if g.ownsProducts(p, batch) {
		pool.Split(p, batch, 1+(1<<16)/(g.M*g.N*g.K), wholeProducts{p, g, depth})
		return
	}
	panelSize := nr * depth
	panels := (g.N + nr - 1) / nr
	distinct := batch // number of different matrices B
	if g.StrideB == 0 {
		distinct = 1
	}
	// `chunk` panels of each of `group` matrices are packed at a time.
	chunk := min(panels, max(1, p.PackedLimit/max(1, panelSize)))
	chunk = pool.CeilDiv(panels, pool.CeilDiv(panels, chunk)) // the same number of chunks, but of about equal size
	group := 1
	if distinct > 1 && chunk == panels {
		group = min(distinct, max(1, p.PackedLimit/max(1, panels*panelSize)))
	}
	var packed []float32
	var own *ownPanels
	switch {
	case g.Packed != nil:
		packed, chunk, distinct = g.Packed.panels, panels, 1
	case p.Threads() > 1 && batch == 1 && g.K*g.N <= ownSize && g.M >= ownRows*p.Threads() &&
		PackingOf(s, g.Precision) != Tiled:
		own, chunk = pool.Keep[ownPanels](p), panels
		own.begin(p.Threads(), panels*panelSize+Spill)
	default:
		p.Shared.Reset()
		packed = p.Shared.Floats(group*chunk*panelSize + Spill)
	}

	for i0 := 0; i0 < distinct; i0 += group {
		matrices := min(group, distinct-i0)
		products := matrices
		if distinct == 1 {
			products = batch
		}
		for q0 := 0; q0 < panels; q0 += chunk {
			width := min(chunk, panels-q0)
			if g.Packed == nil && own == nil {
				PackPanels(p, g, packed, i0, matrices, q0, width)
			}
			b := gemmBlocks{p: p, g: g, packed: packed, own: own, depth: depth, first: i0, at: q0, width: width}
			if distinct > 1 {
				b.next = width * panelSize
			}
			b.run(products)
		}
	}
}

// PackPanels packs panels [q0, q0+width) of B, for products [i0, i0+matrices).
func PackPanels(p *pool.Pool, g *GemmArgs, packed []float32, i0, matrices, q0, width int) {
	if g.K == 0 {
		return
	}
	pool.Split(p, matrices*width, max(1+(1<<14)/(g.K*On(p.Set).NR), min(panelsTogether, matrices*width/p.Threads())),
		panelPacking{p, *g, packed, i0, q0, width})
}

type panelPacking struct {
	p             *pool.Pool
	g             GemmArgs
	packed        []float32
	i0, q0, width int
}

func (x *panelPacking) Do(lo, hi, w int) {
	s, g, width := x.p.Set, &x.g, x.width
	nr := On(s).NR
	way := PackingOf(s, g.Precision)
	kb, depth := way.KSplit(g.K), g.depth(way)
	buf := x.p.Scratch(w).Floats(s.Lanes*kb + way.Buffer(nr, kb))
	for t := lo; t < hi; {
		i, q, j := t/width, t%width, (x.q0+t%width)*nr
		together := 0
		if g.packsTogether(way) {
			together = min(panelsTogether, hi-t, width-q, (g.N-j)/nr)
		}
		base := x.packed[i*width*nr*depth:]
		for k := 0; k < g.K; k += kb {
			n := min(kb, g.K-k)
			dst := base[(width*(k/kb)*way.Depth(kb)+q*way.Depth(n))*nr:]
			if together > 0 {
				g.packTogether(s, dst, x.i0+i, j, k, n, together, buf)
			} else {
				g.packB(s, way, dst, x.i0+i, j, k, n, buf)
			}
		}
		t += max(1, together)
	}
}

// A block is the part of C that one task computes. It has at most blockPanels panels of A. While a panel of B is in the
// first-level cache, these panels of A are multiplied by it one after the other. One block of k of them fits the
// second-level cache, together with the sums for groupPanels panels of B.
const (
	blockPanels = 24
	groupPanels = 8
)

// gemmBlocks cuts C, of products x M rows x panels of columns, into blocks and computes them.
type gemmBlocks struct {
	p                *pool.Pool
	g                *GemmArgs
	packed           []float32  // panels of B
	own              *ownPanels // in place of packed, or nil
	next, depth      int        // floats between the panels of two products, 0 if they share B; GemmArgs.depth
	first, at, width int        // packed begins with panel `at` of product `first` and has width panels of each

	mr, rowPanels int // rows in a panel of A; panels of A in a product
	// blocks that the rows are cut into; panels of B in a block; blocks that the panels of B are cut into
	across, wide, pieces int
	stored, byColumns    bool // GemmArgs.readsStored; see divideStored
}

func (b gemmBlocks) run(products int) {
	b.stored = b.g.readsStored(b.p.Set)
	if b.stored {
		b.divideStored(products)
	} else {
		b.divide(products)
	}
	x := pool.Keep[gemmBlocks](b.p)
	*x = b
	b.p.Each(products*b.across*b.pieces, 1, x)
}

func (b *gemmBlocks) divide(products int) {
	p, g, panels := b.p, b.g, b.width
	way := PackingOf(p.Set, g.Precision)
	b.mr = RowsOfPanel(p.Set, way)
	b.rowPanels = pool.CeilDiv(g.M, b.mr)
	// number of tasks; panels of A in a block, at most; panels of B in it, at least
	want, most, least := 1, blockPanels, groupPanels
	if p.Threads() > 1 && g.M*g.N*g.K*products > 1<<17 {
		want = 8 * p.Threads() // small tasks, so that no worker waits long for the slowest
	}
	if way == Tiled { // multiplying takes no longer than packing A and reading B, so use fewer and higher blocks
		want = min(want, 4*p.Threads())
		most, least = min(16, max(2, tileBlockA/TileSide/g.K), max(2, b.rowPanels*products/want)), 4
	}
	// High blocks read B less often, wide ones pack A less often.
	b.across = pool.CeilDiv(b.rowPanels, most)
	pieces := max(1, min(pool.CeilDiv(want, b.across*products), panels/least))
	if all := pool.CeilDiv(want, pieces*products); b.across < all {
		b.across = min(pool.CeilDiv(b.rowPanels, 2), all)
	}
	if products == 1 && want > 1 { // the same number of blocks for each worker
		b.across = min(b.rowPanels, pool.CeilDiv(b.across, p.Threads())*p.Threads())
	}
	b.wide = pool.CeilDiv(panels, pieces)
	b.pieces = pool.CeilDiv(panels, b.wide)
}

func (b *gemmBlocks) Do(lo, hi, w int) {
	s, g, sc := b.p.Set, b.g, b.p.Scratch(w)
	nr := On(s).NR
	for t := lo; t < hi; t++ {
		q, r, i := t%b.pieces*b.wide, t/b.pieces%b.across, t/b.pieces/b.across
		if b.byColumns {
			q, r = t/b.across%b.pieces*b.wide, t%b.across
		}
		j := (b.at + q) * nr
		m, end := r*g.M/b.across, (r+1)*g.M/b.across
		if !b.stored {
			m, end = r*b.rowPanels/b.across*b.mr, min((r+1)*b.rowPanels/b.across*b.mr, g.M)
		}
		rows := end - m
		var a []float32
		if g.ABlocked == nil && !b.stored {
			a = sc.Floats(PackingOf(s, g.Precision).Rows(rows)*b.depth + Spill)
			g.PackA(s, sc, a, b.first+i, m, rows)
		}
		panels := b.packed
		if b.own != nil {
			panels = b.own.of(b, w)
		}
		g.Tiles(s, sc, b.first+i, m, rows, j, min(min(b.wide, b.width-q)*nr, g.N-j), a, panels[i*b.next:], b.width, q)
	}
}
