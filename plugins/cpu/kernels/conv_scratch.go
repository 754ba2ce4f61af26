package kernels

// ScratchSize returns what Conv needs.
func (g *ConvArgs) ScratchSize(p *Pool) ScratchSize {
	s := p.Set
	if g.Groups < 1 || g.Cin%g.Groups != 0 || g.Cout%g.Groups != 0 {
		panic("BUG: ScratchSize of a convolution whose groups do not divide its channels")
	}
	taps := volume(g.Kernel)
	c := convolution{ConvArgs: *g, p: p, cg: g.Cin / g.Groups, og: g.Cout / g.Groups, out: g.OutSize()}
	c.k = c.cg * taps
	c.reach()
	r := ScratchSize{Other: floats(g.Cout*taps, g.Cout) + sizeOf[GemmArgs](g.Groups) + sizeOf[tap](taps) +
		sizeOf[phase](taps) + sizeOf[int](c.k)}
	r.Shared = floats(g.Cout * c.k)
	switch {
	case g.Last:
		high := rowsHigh * productOn(s).mr
		r.Shared += floats(g.Groups*((c.og+productOn(s).nr-1)/productOn(s).nr)*productOn(s).nr*c.k+spill, g.Cout*taps)
		r.Worker = floats(high*c.k, high*c.k+spill, high*g.Cout, s.Lanes*kBlock, productOn(s).mr*productOn(s).nr)
	case c.byChannel():
		r.Worker = c.bandScratch()
	default:
		blocks := (c.og + c.blockRows() - 1) / c.blockRows()
		r.Shared += floats(g.Groups * blocks * (c.blockRows()*c.k + spill*taps))
		columns := min(panelsMost, (volume(c.out)+productOn(s).nr-1)/productOn(s).nr) * productOn(s).nr
		r.Worker = max(
			floats(min(max(productOn(s).nr*c.k, columnsRoom), columns*c.k)+spill, productOn(s).mr*productOn(s).nr, taps, c.blockRows()*productOn(s).nr,
				c.blockSize()), c.productScratch(), floats(c.blockRows()*taps, c.blockRows()/productOn(s).mr*taps*s.Lanes))
	}
	if g.Transposed { // see convolution.disjoint
		one := GemmArgs{M: g.In[2], N: g.Kernel[2] * g.Cout, K: g.Cin, Batch: g.In[1]}
		gemm := one.ScratchSize(p, false)
		gemm.Other += floats(g.Cin*one.N, one.N, g.Cout*taps)
		return r.With(gemm)
	}
	plain := GemmArgs{M: g.N * volume(g.In), N: g.Cout, K: g.Cin, TransB: true}
	return r.With(plain.ScratchSize(p, false))
}
