package kernels

// ScratchSize returns what Attention needs for up to B batch elements, SQ queries and SK keys. It reads only the sizes,
// the mask and the precision of g.
func (g *AttentionArgs) ScratchSize(p *Pool) (r ScratchSize) {
	sc, shared := newCounter(), newCounter()
	var a attnTile
	a.init(p.Set, &sc, g.Precision, min(g.SQ, g.mostPanels()*productOn(p.Set).nr), max(1, g.SK), g.DK, g.DV)
	r.Worker = sc.counted()
	x := attendingFew{AttentionArgs: *g}
	x.SQ = min(g.SQ, fewQueries)
	x.init(p, &shared, g.SK)
	sc = newCounter()
	new(fewRows).init(&x, &sc)
	return r.With(ScratchSize{Shared: shared.counted(), Worker: sc.counted()})
}
