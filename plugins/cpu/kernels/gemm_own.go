package kernels

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
)

// begin allocates the memory of a product.
func (o *ownPanels) begin(workers, size int) {
	if o.panels == nil {
		o.panels, o.packed = make([][]float32, workers), make([]bool, workers)
	}
	for i := range o.panels {
		o.panels[i] = sized(o.panels[i], size)
	}
	clear(o.packed)
}

// of returns the panels of a worker and packs them at the first call.
func (o *ownPanels) of(b *gemmBlocks, w int) []float32 {
	if !o.packed[w] {
		o.packed[w] = true
		all := panelPacking{p: b.p, g: *b.g, packed: o.panels[w], width: b.width}
		all.do(0, b.width, w)
	}
	return o.panels[w]
}

// ownsProducts reports whether a batch has small products, and enough of them to occupy all workers. Then one worker
// computes a whole product: it packs both operands and multiplies them.
func (g *GemmArgs) ownsProducts(p *Pool, batch int) bool {
	return batch >= ownProducts*p.Threads() && g.StrideB != 0 && g.Packed == nil && g.K > 0 && g.K*g.N <= ownSize &&
		packingOf(p.Set, g.Precision) != tiled
}

// wholeProducts computes products of a batch one by one.
type wholeProducts struct {
	p     *Pool
	g     *GemmArgs
	depth int
}

func (x *wholeProducts) do(lo, hi, w int) {
	s, g, sc := x.p.Set, x.g, x.p.scratch(w)
	panels, high := (g.N+productOn(s).nr-1)/productOn(s).nr, min(g.M, 8*productOn(s).mr)
	b, a := sc.floats(panels*productOn(s).nr*x.depth+spill), sc.floats(high*x.depth+spill)
	mark := sc.mark()
	for i := lo; i < hi; i++ {
		all := panelPacking{p: x.p, g: *g, packed: b, i0: i, width: panels}
		all.do(0, panels, w)
		sc.release(mark)
		for m := 0; m < g.M; m += high {
			rows := min(high, g.M-m)
			g.packA(s, sc, a, i, m, rows)
			g.tiles(s, sc, i, m, rows, 0, g.N, a, b, panels, 0)
			sc.release(mark)
		}
	}
}
