package product

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// A route is a way to compute a product. Gemm takes the first of routes that computes it.
type route struct {
	// takes reports whether the route is for the product, which has a batch of at least 1.
	takes func(p *pool.Pool, g *GemmArgs, batch int) bool
	// run computes the product. It returns false if the values of A prevent that. C may then have arbitrary values, and
	// Gemm tries the next route.
	run func(p *pool.Pool, g *GemmArgs, batch int) bool
	// scratch returns what run needs for up to g.M rows, g.N columns and g.Batch products of depth g.K; see
	// GemmArgs.ScratchSize. It may be more than 0 for products that the route does not take.
	scratch func(p *pool.Pool, g *GemmArgs) pool.Size
}

var routes = [...]route{
	{ // one row, or a few, and weights of a packed type
		takes: func(p *pool.Pool, g *GemmArgs, batch int) bool { return g.dotsPacked(p.Set, batch) },
		run:   func(p *pool.Pool, g *GemmArgs, _ int) bool { return gemvPacked(p, g) },
		scratch: func(_ *pool.Pool, g *GemmArgs) (r pool.Size) {
			if few := min(g.M, packedDotRows); g.B.Kind.IsPacked() {
				r.Shared = pool.FloatBytes(few*g.K/32, few*g.K) // sums and arranged activations
			}
			return r
		},
	},
	{ // more rows, and weights of a packed type in tiles of integers
		takes: func(p *pool.Pool, g *GemmArgs, batch int) bool { return g.splitsPacked(p.Set, batch) },
		run:   func(p *pool.Pool, g *GemmArgs, _ int) bool { return gemmSplit(p, g) },
		scratch: func(p *pool.Pool, g *GemmArgs) (r pool.Size) {
			if On(p.Set).split != nil && g.B.Kind.IsPacked() {
				return g.splitScratch()
			}
			return r
		},
	},
	{ // one row, or a few
		takes:   func(p *pool.Pool, g *GemmArgs, _ int) bool { return g.dots(p.Set) },
		run:     always(gemv),
		scratch: func(_ *pool.Pool, g *GemmArgs) pool.Size { return pool.Size{Worker: pool.FloatBytes(g.K, gemvRun)} },
	},
	{ // one row, and weights that are read as they lie
		takes:   func(p *pool.Pool, g *GemmArgs, _ int) bool { return g.oneRow(p) },
		run:     always(gemmRow),
		scratch: rowScratch,
	},
	{ // many rows, in tiles of bfloat16
		takes:   func(p *pool.Pool, g *GemmArgs, batch int) bool { return g.inParts(p.Set, batch) },
		run:     func(p *pool.Pool, g *GemmArgs, _ int) bool { return gemmParts(p, g) },
		scratch: func(p *pool.Pool, g *GemmArgs) pool.Size { return g.partsScratch(p) },
	},
	{ // many rows, and weights that are read as they lie
		takes: func(p *pool.Pool, g *GemmArgs, batch int) bool { return batch == 1 && g.byRows(p) },
		run:   always(func(p *pool.Pool, g *GemmArgs, _ int) { gemmRows(p, g) }),
		scratch: func(p *pool.Pool, g *GemmArgs) pool.Size {
			return pool.Size{Shared: g.rowsShared(p.Set), Worker: g.rowsWorker(p.Set)}
		},
	},
	{ // rows that fit the second-level cache
		takes: func(p *pool.Pool, g *GemmArgs, batch int) bool { return batch == 1 && g.inStrips(p) },
		run:   always(func(p *pool.Pool, g *GemmArgs, _ int) { gemmStrips(p, g) }),
		scratch: func(p *pool.Pool, g *GemmArgs) pool.Size {
			_, pack, end := g.buffers(p.Set)
			return pool.Size{Shared: g.stripShared(p.Set), Worker: g.stripWorker(p.Set) + end + pack}
		},
	},
	{ // everything else
		takes:   func(*pool.Pool, *GemmArgs, int) bool { return true },
		run:     always(gemmPacked),
		scratch: panelScratch,
	},
}

// always makes a route's run of a function that can compute every product that the route takes.
func always(f func(p *pool.Pool, g *GemmArgs, batch int)) func(p *pool.Pool, g *GemmArgs, batch int) bool {
	return func(p *pool.Pool, g *GemmArgs, batch int) bool { f(p, g, batch); return true }
}

// ScratchSize returns what Gemm needs for up to M rows, N columns and Batch products of depth K. It reads only the
// sizes, the type of B, the precision, the activation and the transpositions of g. The bound covers a residual that is
// C itself.
func (g *GemmArgs) ScratchSize(p *pool.Pool) (r pool.Size) {
	for _, way := range routes {
		r = r.With(way.scratch(p, g))
	}
	return r
}

// packedMatrix returns how many floats of memory all of B takes, packed.
func (g *GemmArgs) packedMatrix(s *isa.Set) int {
	return pool.CeilDiv(g.N, On(s).NR)*On(s).NR*g.depth(PackingOf(s, g.Precision)) + Spill
}

// buffers returns the number of rows that a worker multiplies by a panel of B, and the bytes of its buffers: the buffer
// for packing B, and the one after the sums of a tile.
func (g *GemmArgs) buffers(s *isa.Set) (high int, pack, end int64) {
	way := PackingOf(s, g.Precision)
	kb := way.KSplit(g.K)
	high = min(way.Rows(g.M), blockPanels*On(s).MR)
	end = pool.FloatBytes(On(s).MR * On(s).NR)
	group := min(g.N, groupPanels*On(s).NR)
	if way == Tiled {
		high = min(way.Rows(g.M), 16*TileSide)
		end = pool.FloatBytes(high*TileSide, TileSide*TileSide, TileSide, high*TileSide)
		group = g.N
	}
	if g.Act != elementwise.Identity {
		end += pool.FloatBytes(high * group) // a copy of the residual, if C is written before it is added
	}
	return high, pool.FloatBytes(s.Lanes*kb + way.Buffer(On(s).NR, kb)), end
}

// panelScratch returns what gemmPacked needs.
func panelScratch(p *pool.Pool, g *GemmArgs) (r pool.Size) {
	s, way := p.Set, PackingOf(p.Set, g.Precision)
	kb, depth, matrix := way.KSplit(g.K), g.depth(way), g.packedMatrix(s)
	high, pack, end := g.buffers(s)
	var transposed int64
	if way == Tiled && g.TransA {
		transposed = int64(pool.CeilDiv(g.K, kb)) * pool.FloatBytes(high*kb)
	}
	r.Worker = pool.FloatBytes(way.Rows(high)*depth+Spill, way.Buffer(On(s).MR, kb)) + transposed + end + pack
	own := ownSize + On(s).NR*(depth+g.K)
	if g.Batch >= ownProducts*p.Threads() && way != Tiled {
		r.Worker = max(r.Worker, g.aloneScratch(s, min(matrix, own)))
	}
	r.Shared = pool.FloatBytes(max(On(s).NR*depth, min(p.PackedLimit, max(1, g.Batch)*min(matrix, p.PackedLimit))) +
		Spill)
	if g.canReadStored(s) {
		r.Shared = max(r.Shared, pool.FloatBytes(min(g.M, stripRows)*g.spreadLD()))
	}
	if n := p.Threads(); n > 1 && g.M >= ownRows*n && way != Tiled {
		r.Other = int64(n) * pool.FloatBytes(min(matrix, own))
	}
	return r
}
