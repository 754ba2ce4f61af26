package kernels

// ScratchSize returns what Gemm needs for up to M rows, N columns and Batch products of depth K. If the weights are
// fixed, it includes what PackWeights keeps. It reads only the sizes, the type of B, the precision, the activation and
// the transpositions of g. The bound covers a residual that is C itself.
func (g *GemmArgs) ScratchSize(p *Pool, fixed bool) (r ScratchSize) {
	s, way := p.Set, packingOf(p.Set, g.Precision)
	kb, depth, panels := way.kSplit(g.K), g.depth(way), (g.N+productOn(s).nr-1)/productOn(s).nr
	blocks := (g.K + kb - 1) / kb
	matrix := panels*productOn(s).nr*depth + spill // B, packed
	// A worker multiplies some rows of A by some panels of B, or all rows by a strip.
	high := min(way.rows(g.M), blockPanels*productOn(s).mr)
	if way == tiled {
		high = min(way.rows(g.M), 16*tileSide)
	}
	end := floats(productOn(s).mr * productOn(s).nr)
	if way == tiled {
		end = floats(high*tileSide, tileSide*tileSide, tileSide, high*tileSide)
	}
	if g.Act != Identity {
		group := g.N
		if way != tiled {
			group = min(g.N, groupPanels*productOn(s).nr)
		}
		end += floats(high * group) // a copy of the residual, if C is written before it is added
	}
	transposed := func(rows int) int64 {
		if way != tiled || !g.TransA {
			return 0
		}
		return int64(blocks) * floats(rows*kb)
	}
	pack := floats(s.Lanes*kb + way.buffer(productOn(s).nr, kb))
	r.Worker = max(floats(way.rows(high)*depth+spill, way.buffer(productOn(s).mr, kb))+transposed(high)+end+pack,
		g.stripWorker(s)+end+pack, g.rowsWorker(s), floats(g.K, gemvRun))
	own := ownSize + productOn(s).nr*(depth+g.K)
	if g.Batch >= ownProducts*p.Threads() && way != tiled {
		r.Worker = max(r.Worker, floats(min(matrix, own), high*depth+spill)+max(pack, floats(way.buffer(productOn(s).mr, kb))+end))
	}
	packed := max(productOn(s).nr*depth, min(p.packedLimit, max(1, g.Batch)*min(matrix, p.packedLimit)))
	r.Shared = max(floats(packed+spill), g.stripShared(s), g.rowsShared(s))
	if few := min(g.M, packedDotRows); g.B.kind.IsPacked() {
		r.Shared = max(r.Shared, floats(few*g.K/32, few*g.K)) // sums and arranged activations
	}
	if n := p.Threads(); n > 1 && g.M >= ownRows*n && way != tiled {
		r.Other = int64(n) * floats(min(matrix, own))
	}
	if fixed && TakesBlocked(p, g.Precision) {
		r.Packed = floats(matrix)
	}
	if productOn(s).split != nil && g.B.kind.IsPacked() {
		r = r.With(g.splitScratch())
	}
	return r
}
