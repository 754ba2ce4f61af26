package conv

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
)

// ScratchSize returns what Convolve needs.
func (g *Args) ScratchSize(p *pool.Pool) pool.Size {
	if g.empty() {
		return pool.Size{}
	}
	return g.addImages(p, g.togetherSize(p))
}

// empty reports whether the result has no elements.
func (g *Args) empty() bool { return g.N*g.Cout*elementwise.Volume(g.OutSize()) == 0 }

// togetherSize is ScratchSize if workers share the work on each image.
func (g *Args) togetherSize(p *pool.Pool) pool.Size {
	s := p.Set
	mr, nr := product.On(s).MR, product.On(s).NR
	if g.Groups < 1 || g.Cin%g.Groups != 0 || g.Cout%g.Groups != 0 {
		panic("BUG: ScratchSize of a convolution whose groups do not divide its channels")
	}
	taps := elementwise.Volume(g.Kernel)
	c := convolution{Args: *g, p: p, cg: g.Cin / g.Groups, og: g.Cout / g.Groups, out: g.OutSize()}
	c.k = c.cg * taps
	c.reach()
	r := pool.Size{Other: pool.FloatBytes(g.Cout*taps,
		g.Cout) + pool.SizeOf[product.GemmArgs](g.Groups) + pool.SizeOf[tap](taps) +
		pool.SizeOf[phase](taps) + pool.SizeOf[int](c.k)}
	r.Shared = pool.FloatBytes(g.Cout * c.k)
	switch {
	case g.Last:
		high := rowsHigh * mr
		r.Shared += pool.FloatBytes(g.Groups*((c.og+nr-1)/nr)*nr*c.k+product.Spill, g.Cout*taps)
		r.Worker = pool.FloatBytes(high*c.k, high*c.k+product.Spill, high*g.Cout, s.Lanes*product.KBlock, mr*nr)
	case c.byChannel():
		r.Worker = max(c.bandScratch(), c.pixelScratch(), c.lineScratch(), c.tinyScratch())
		r.Shared += pool.FloatBytes(c.pixelWeights(), taps, max(3*taps, c.pixelBlocks())*s.Lanes)
	default:
		blocks := (c.og + c.blockRows() - 1) / c.blockRows()
		r.Shared += pool.FloatBytes(g.Groups * blocks * (c.blockRows()*c.k + product.Spill*taps))
		columns := min(panelsMost, (elementwise.Volume(c.out)+nr-1)/nr) * nr
		r.Worker = pool.FloatBytes(min(max(nr*c.k, columnsRoom), columns*c.k)+product.Spill, mr*nr, taps,
			c.blockRows()*nr, c.blockSize())
		if c.flat() {
			r.Worker += c.flatScratch(1, columns)
		}
		r.Worker = max(r.Worker, c.productScratch(),
			pool.FloatBytes(c.blockRows()*taps, c.blockRows()/mr*taps*s.Lanes))
	}
	if c.Last && lastOn(s).tile != nil {
		more := c.lastScratch()
		if c.suitsWinogradLast() {
			own := c.winogradLastScratch()
			more.Shared, more.Worker = max(more.Shared, own.Shared), max(more.Worker, own.Worker)
			more.Other += own.Other
		}
		if !g.Transposed {
			more.Other += r.Other
			return more
		}
		r = r.With(more)
	}
	c.Packed = new(Packed)
	if c.inPatches() {
		r = r.With(c.patchScratch())
	}
	if c.flat() {
		more := c.mergedSize()
		more.Shared += pool.FloatBytes(g.Cout * c.k)
		more.Other = r.Other
		r = r.With(more).With(c.fewSize())
	}
	if c.byWinograd() {
		more := c.winogradScratch()
		more.Other += r.Other
		r = r.With(more)
	}
	if g.Transposed { // see convolution.disjoint
		one := product.GemmArgs{M: g.In[2], N: g.Kernel[2] * g.Cout, K: g.Cin, Batch: g.In[1]}
		gemm := one.ScratchSize(p)
		gemm.Other += pool.FloatBytes(g.Cin*one.N, one.N, g.Cout*taps)
		return r.With(gemm)
	}
	plain := product.GemmArgs{M: g.N * elementwise.Volume(g.In), N: g.Cout, K: g.Cin, TransB: true,
		Act: g.Act}
	return r.With(plain.ScratchSize(p))
}

// lastScratch returns what lastConv needs, also for smaller images.
func (g *convolution) lastScratch() (r pool.Size) {
	lanes, taps := g.p.Set.Lanes, elementwise.Volume(g.Kernel)
	pixels := min(g.joinedPixels(), g.N*elementwise.Volume(g.out))
	r.Shared = pool.FloatBytes(g.lastWeights(), g.Groups*pool.CeilDiv(g.og, lanes)*lanes+g.Cout+lanes,
		max(g.cg, lanes*lastOn(g.p.Set).vectors), 2*g.lastListSize())
	r.Worker = pool.FloatBytes(taps, 4*taps*pixels)
	r.Other = pool.SizeOf[lastRun](4+2*min(g.out[2], 2*g.lastEdges()+4)) +
		pool.SizeOf[lastSpan](4+2*min(g.out[1], 2*g.Kernel[1]+1))
	return r
}
