package attention

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
)

// ScratchSize returns what Attention needs for up to B batch elements, SQ queries and SK keys. It reads only the sizes,
// the mask and the precision of g.
func (g *Args) ScratchSize(p *pool.Pool) (r pool.Size) {
	sc, shared := pool.NewCounter(), pool.NewCounter()
	var a attnTile
	a.init(p.Set, &sc, g.Precision, min(g.SQ, g.mostPanels()*product.On(p.Set).NR), max(1, g.SK), g.DK, g.DV)
	r.Worker = sc.Counted()
	x := attendingFew{Args: *g}
	x.SQ = min(g.SQ, fewQueries)
	x.init(p, &shared, g.SK)
	sc = pool.NewCounter()
	new(fewRows).init(&x, &sc)
	return r.With(pool.Size{Shared: shared.Counted(), Worker: sc.Counted()})
}
