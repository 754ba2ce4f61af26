package kernels

// A route is a way to compute a product. Gemm takes the first of routes that computes it.
type route struct {
	// takes reports whether the route is for the product, which has a batch of at least 1.
	takes func(p *Pool, g *GemmArgs, batch int) bool
	// run computes the product. It returns false if the values of A prevent that. C may then have arbitrary values, and
	// Gemm tries the next route.
	run func(p *Pool, g *GemmArgs, batch int) bool
	// scratch returns what run needs for up to g.M rows, g.N columns and g.Batch products of depth g.K; see
	// GemmArgs.ScratchSize. It may be more than 0 for products that the route does not take.
	scratch func(p *Pool, g *GemmArgs) ScratchSize
}

var routes = [...]route{
	{ // one row, or a few, and weights of a packed type
		takes: func(p *Pool, g *GemmArgs, batch int) bool { return g.dotsPacked(p.isa, batch) },
		run:   func(p *Pool, g *GemmArgs, _ int) bool { return gemvPacked(p, g) },
		scratch: func(_ *Pool, g *GemmArgs) (r ScratchSize) {
			if few := min(g.M, packedDotRows); g.B.kind.IsPacked() {
				r.Shared = floats(few*g.K/32, few*g.K) // sums and arranged activations
			}
			return r
		},
	},
	{ // more rows, and weights of a packed type in tiles of integers
		takes: func(p *Pool, g *GemmArgs, batch int) bool { return g.splitsPacked(p.isa, batch) },
		run:   func(p *Pool, g *GemmArgs, _ int) bool { return gemmSplit(p, g) },
		scratch: func(p *Pool, g *GemmArgs) (r ScratchSize) {
			if p.isa.split != nil && g.B.kind.IsPacked() {
				return g.splitScratch()
			}
			return r
		},
	},
	{ // one or two rows
		takes:   func(_ *Pool, g *GemmArgs, _ int) bool { return g.dots() },
		run:     always(gemv),
		scratch: func(_ *Pool, g *GemmArgs) ScratchSize { return ScratchSize{Worker: floats(g.K, gemvRun)} },
	},
	{ // many rows, and weights that are read as they lie
		takes: func(p *Pool, g *GemmArgs, batch int) bool { return batch == 1 && g.byRows(p) },
		run:   always(func(p *Pool, g *GemmArgs, _ int) { gemmRows(p, g) }),
		scratch: func(p *Pool, g *GemmArgs) ScratchSize {
			return ScratchSize{Shared: g.rowsShared(p.isa), Worker: g.rowsWorker(p.isa)}
		},
	},
	{ // rows that fit the second-level cache
		takes: func(p *Pool, g *GemmArgs, batch int) bool { return batch == 1 && g.inStrips(p) },
		run:   always(func(p *Pool, g *GemmArgs, _ int) { gemmStrips(p, g) }),
		scratch: func(p *Pool, g *GemmArgs) ScratchSize {
			_, pack, end := g.buffers(p.isa)
			return ScratchSize{Shared: g.stripShared(p.isa), Worker: g.stripWorker(p.isa) + end + pack}
		},
	},
	{ // everything else
		takes:   func(*Pool, *GemmArgs, int) bool { return true },
		run:     always(gemmPacked),
		scratch: panelScratch,
	},
}

// always makes a route's run of a function that can compute every product that the route takes.
func always(f func(p *Pool, g *GemmArgs, batch int)) func(p *Pool, g *GemmArgs, batch int) bool {
	return func(p *Pool, g *GemmArgs, batch int) bool { f(p, g, batch); return true }
}

// ScratchSize returns what Gemm needs for up to M rows, N columns and Batch products of depth K. If the weights are
// fixed, it includes what PackWeights keeps. It reads only the sizes, the type of B, the precision, the activation and
// the transpositions of g. The bound covers a residual that is C itself.
func (g *GemmArgs) ScratchSize(p *Pool, fixed bool) (r ScratchSize) {
	for _, way := range routes {
		r = r.With(way.scratch(p, g))
	}
	if fixed && p.TakesBlocked(g.Precision) {
		r.Packed += floats(g.packedMatrix(p.isa))
	}
	return r
}

// packedMatrix returns how many floats of memory all of B takes, packed.
func (g *GemmArgs) packedMatrix(s *isa) int {
	return ceilDiv(g.N, s.nr)*s.nr*g.depth(s.packing(g.Precision)) + spill
}

// buffers returns the number of rows that a worker multiplies by a panel of B, and the bytes of its buffers: to pack B,
// and for what follows the sums of a tile.
func (g *GemmArgs) buffers(s *isa) (high int, pack, end int64) {
	way := s.packing(g.Precision)
	kb := way.kSplit(g.K)
	high = min(way.rows(g.M), blockPanels*s.mr)
	end = floats(s.mr * s.nr)
	group := min(g.N, groupPanels*s.nr)
	if way == tiled {
		high = min(way.rows(g.M), 16*tileSide)
		end = floats(high*tileSide, tileSide*tileSide, tileSide, high*tileSide)
		group = g.N
	}
	if g.Act != Identity {
		end += floats(high * group) // a copy of the residual, if C is written before it is added
	}
	return high, floats(s.lanes*kb + way.buffer(s.nr, kb)), end
}

// panelScratch returns what gemmPacked needs.
func panelScratch(p *Pool, g *GemmArgs) (r ScratchSize) {
	s, way := p.isa, p.isa.packing(g.Precision)
	kb, depth, matrix := way.kSplit(g.K), g.depth(way), g.packedMatrix(s)
	high, pack, end := g.buffers(s)
	var transposed int64
	if way == tiled && g.TransA {
		transposed = int64(ceilDiv(g.K, kb)) * floats(high*kb)
	}
	r.Worker = floats(way.rows(high)*depth+spill, way.buffer(s.mr, kb)) + transposed + end + pack
	own := ownSize + s.nr*(depth+g.K)
	if g.Batch >= ownProducts*len(p.workers) && way != tiled {
		r.Worker = max(r.Worker, floats(min(matrix, own), high*depth+spill)+max(pack, floats(way.buffer(s.mr, kb))+end))
	}
	r.Shared = floats(max(s.nr*depth, min(p.packedLimit, max(1, g.Batch)*min(matrix, p.packedLimit))) + spill)
	if n := len(p.workers); n > 1 && g.M >= ownRows*n && way != tiled {
		r.Other = int64(n) * floats(min(matrix, own))
	}
	return r
}
