package product

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// ownPanels holds the panels of a small B, one copy for each worker. Every worker packs its own copy, because fetching
// cache lines that another worker has just written takes longer than packing. Either takes little time compared to the
// worker's share of the rows.
type ownPanels struct {
	panels [][]float32 // by worker
	packed []bool
}

const (
	ownSize     = 1 << 18 // largest number of elements of B
	ownRows     = 64      // least number of rows for each worker
	ownProducts = 4       // least number of products of a batch for each worker
	// panels of A that a worker packs at a time, if it computes a product alone
	ownPanelsHigh = 8
)

// begin allocates the memory of a product.
func (o *ownPanels) begin(workers, size int) {
	if o.panels == nil {
		o.panels, o.packed = make([][]float32, workers), make([]bool, workers)
	}
	for i := range o.panels {
		o.panels[i] = pool.Sized(o.panels[i], size)
	}
	clear(o.packed)
}

// of returns the panels of a worker and packs them at the first call.
func (o *ownPanels) of(b *gemmBlocks, w int) []float32 {
	if !o.packed[w] {
		o.packed[w] = true
		all := panelPacking{p: b.p, g: *b.g, packed: o.panels[w], width: b.width}
		all.Do(0, b.width, w)
	}
	return o.panels[w]
}

// ownsProducts reports whether a batch has small products, and enough of them to occupy all workers. Then one worker
// computes a whole product: it packs both operands and multiplies them.
func (g *GemmArgs) ownsProducts(p *pool.Pool, batch int) bool {
	return batch >= ownProducts*p.Threads() && g.StrideB != 0 && g.Packed == nil && g.K > 0 && g.K*g.N <= ownSize &&
		PackingOf(p.Set, g.Precision) != Tiled
}

// wholeProducts computes products of a batch one by one.
type wholeProducts struct {
	p     *pool.Pool
	g     *GemmArgs
	depth int
}

func (x *wholeProducts) Do(lo, hi, w int) {
	for i := lo; i < hi; i++ {
		x.g.alone(x.p, i, x.depth, w)
	}
}

// Alone computes a single product of f32 by worker w, for callers that share a problem of many small products. Its
// scratch memory is released. The sums are in the order that Gemm documents.
func (g *GemmArgs) Alone(p *pool.Pool, w int) {
	if g.M == 0 || g.N == 0 {
		return
	}
	g.check(1)
	g.alone(p, 0, g.depth(PackingOf(p.Set, g.Precision)), w)
}

// AloneScratch returns the bytes that Alone takes of a worker's scratch memory.
func (g *GemmArgs) AloneScratch(p *pool.Pool) int64 {
	return g.aloneScratch(p.Set, g.packedMatrix(p.Set))
}

// aloneScratch is AloneScratch for a B that takes so many floats, packed.
func (g *GemmArgs) aloneScratch(s *isa.Set, matrix int) int64 {
	way := PackingOf(s, g.Precision)
	_, pack, end := g.buffers(s)
	return pool.FloatBytes(matrix, min(g.M, ownPanelsHigh*On(s).MR)*g.depth(way)+Spill) +
		max(pack, pool.FloatBytes(way.Buffer(On(s).MR, way.KSplit(g.K)))+end)
}

// alone computes product i of a batch.
func (g *GemmArgs) alone(p *pool.Pool, i, depth, w int) {
	s, sc := p.Set, p.Scratch(w)
	nr := On(s).NR
	panels, high := (g.N+nr-1)/nr, min(g.M, ownPanelsHigh*On(s).MR)
	start := sc.Mark()
	b := sc.Floats(panels*nr*depth + Spill)
	var a []float32
	if !g.readsStored(s) {
		a = sc.Floats(high*depth + Spill)
	}
	mark := sc.Mark()
	all := panelPacking{p: p, g: *g, packed: b, i0: i, width: panels}
	all.Do(0, panels, w)
	sc.Release(mark)
	for m := 0; m < g.M; m += high {
		rows := min(high, g.M-m)
		if a != nil {
			g.PackA(s, sc, a, i, m, rows)
		}
		g.Tiles(s, sc, i, m, rows, 0, g.N, a, b, panels, 0)
		sc.Release(mark)
	}
	sc.Release(start)
}
