package product

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// ScratchSize returns what Gemm needs for up to M rows, N columns and Batch products of depth K. If the weights are
// fixed, it includes what PackWeights keeps. It reads only the sizes, the type of B, the precision, the activation and
// the transpositions of g. The bound covers a residual that is C itself.
func (g *GemmArgs) ScratchSize(p *pool.Pool, fixed bool) (r pool.Size) {
	s, way := p.Set, PackingOf(p.Set, g.Precision)
	mr, nr := On(s).MR, On(s).NR
	kb, depth, panels := way.KSplit(g.K), g.depth(way), (g.N+nr-1)/nr
	blocks := (g.K + kb - 1) / kb
	matrix := panels*nr*depth + Spill // B, packed
	// A worker multiplies some rows of A by some panels of B, or all rows by a strip.
	high := min(way.Rows(g.M), blockPanels*mr)
	if way == Tiled {
		high = min(way.Rows(g.M), 16*TileSide)
	}
	end := pool.FloatBytes(mr * nr)
	if way == Tiled {
		end = pool.FloatBytes(high*TileSide, TileSide*TileSide, TileSide, high*TileSide)
	}
	if g.Act != elementwise.Identity {
		group := g.N
		if way != Tiled {
			group = min(g.N, groupPanels*nr)
		}
		end += pool.FloatBytes(high * group) // a copy of the residual, if C is written before it is added
	}
	transposed := func(rows int) int64 {
		if way != Tiled || !g.TransA {
			return 0
		}
		return int64(blocks) * pool.FloatBytes(rows*kb)
	}
	pack := pool.FloatBytes(s.Lanes*kb + way.Buffer(nr, kb))
	r.Worker = max(pool.FloatBytes(way.Rows(high)*depth+Spill, way.Buffer(mr, kb))+transposed(high)+end+pack,
		g.stripWorker(s)+end+pack, g.rowsWorker(s), pool.FloatBytes(g.K, gemvRun))
	own := ownSize + nr*(depth+g.K)
	if g.Batch >= ownProducts*p.Threads() && way != Tiled {
		r.Worker = max(r.Worker, pool.FloatBytes(min(matrix, own), high*depth+Spill)+max(pack,
			pool.FloatBytes(way.Buffer(mr, kb))+end))
	}
	packed := max(nr*depth, min(p.PackedLimit, max(1, g.Batch)*min(matrix, p.PackedLimit)))
	r.Shared = max(pool.FloatBytes(packed+Spill), g.stripShared(s), g.rowsShared(s))
	if few := min(g.M, packedDotRows); g.B.Kind.IsPacked() {
		r.Shared = max(r.Shared, pool.FloatBytes(few*g.K/32, few*g.K)) // sums and arranged activations
	}
	if n := p.Threads(); n > 1 && g.M >= ownRows*n && way != Tiled {
		r.Other = int64(n) * pool.FloatBytes(min(matrix, own))
	}
	if fixed && TakesBlocked(p, g.Precision) {
		r.Packed = pool.FloatBytes(matrix)
	}
	if On(s).split != nil && g.B.Kind.IsPacked() {
		r = r.With(g.splitScratch())
	}
	return r
}
