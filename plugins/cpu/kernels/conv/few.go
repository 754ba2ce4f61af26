package conv

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// Convolutions with channels first and so few elements per channel that a vector of them would be mostly empty. The
// weights are the right operand, packed in advance, so vectors hold output channels. A row of the left operand holds
// what one element of the result reads, of all images.

const (
	fewest   = 8  // that many elements of a channel are few for any weights
	mostFew  = 63 // maximum number of elements of a channel
	fewHigh  = 8  // panels of rows that are packed at a time
	fewParts = 4  // least number of panels of weights that workers share if there are more than fewest elements
)

// few reports whether fewRows computes the convolution.
func (g *convolution) few() bool { return g.Packed != nil && g.fewElements() }

// fewElements reports whether vectors of elements would be emptier than vectors of output channels, for one image. It
// does not depend on the number of images, which may change from call to call.
func (g *convolution) fewElements() bool {
	area, lanes := elementwise.Volume(g.out), g.p.Set.Lanes
	if !g.flat() || area <= fewest || area > mostFew || g.og < fewParts*product.On(g.p.Set).NR {
		return g.flat() && area <= fewest
	}
	return 5*pool.CeilDiv(area, lanes)*g.og > 6*area*pool.CeilDiv(g.og, lanes)
}

// rightSize returns the number of floats of all panels of weights.
func (g *convolution) rightSize() int {
	nr := product.On(g.p.Set).NR
	return g.Groups*pool.CeilDiv(g.og, nr)*nr*g.k + product.Spill
}

// fewSize returns the bytes that all workers share and the bytes of each worker.
func (g *convolution) fewSize() pool.Size {
	on := product.On(g.p.Set)
	high := fewHigh * on.MR
	return pool.Size{Shared: pool.FloatBytes(g.Groups*high*g.k + product.Spill),
		Worker: max(g.flatScratch(g.N, mostFew*g.N), pool.FloatBytes(high*on.NR, (high+g.p.Set.Lanes)*on.NR,
			on.MR*on.NR, g.p.Set.Lanes*product.KBlock))}
}

// fewRows computes the convolution.
func (g *convolution) fewRows() {
	p, on := g.p, product.On(g.p.Set)
	g.phase = g.phases[0]
	g.phaseTaps = g.taps[g.first:g.end]
	g.panels = pool.CeilDiv(g.og, on.NR)
	p.Shared.Reset()
	g.packRight()
	if p.Bad.Load() != 0 {
		return
	}
	area := elementwise.Volume(g.out)
	g.late = true
	if area > 1 {
		g.inTiles()
	}
	total := g.N * area
	direct := g.N == 1 && total <= on.MR && g.plain() // gathering would write the image itself
	if direct {
		g.packed = g.X
	} else {
		g.packed = p.Shared.Floats(g.Groups*min(total, fewHigh*on.MR)*g.k + product.Spill)
	}
	for m := 0; m < total; m += fewHigh * on.MR {
		g.firstRow, g.rowsNow = m, min(fewHigh*on.MR, total-m)
		if !direct {
			g.packAll(true, m, g.rowsNow, g.rowsNow)
		}
		// A task has at least as many products as 4*Grain elements.
		p.Share(g.Groups*g.panels, 1+4*pool.Grain/(g.rowsNow*g.k*on.NR), (*fewPanels)(g))
	}
}

// fewPanels multiplies the rows that are gathered by panels of weights.
type fewPanels convolution

func (x *fewPanels) Do(lo, hi, worker int) {
	g := (*convolution)(x)
	s, sc, nr, area := g.p.Set, g.p.Scratch(worker), product.On(g.p.Set).NR, elementwise.Volume(g.out)
	pitch := pool.CeilDiv(g.rowsNow, s.Lanes) * s.Lanes
	tile, turned := sc.Floats(g.rowsNow*nr), sc.Floats(nr*pitch)
	for t := lo; t < hi; t++ {
		mark := sc.Mark()
		group, panel := t/g.panels, t%g.panels
		cols := min(nr, g.og-panel*nr)
		o := group*g.og + panel*nr
		q := product.GemmArgs{M: g.rowsNow, N: cols, K: g.k, C: tile, LDC: nr}
		if area == 1 {
			q.C, q.LDC = g.Out[g.firstRow*g.Cout+o:], g.Cout
		}
		if g.Bias != nil {
			q.Bias = g.Bias[o:]
		}
		q.Tiles(s, sc, 0, 0, g.rowsNow, 0, cols, g.packed[group*g.rowsNow*g.k:],
			g.right[group*g.panels*nr*g.k:], g.panels, panel)
		if area > 1 {
			g.activate(tile[:g.rowsNow*nr])
		}
		switch {
		case area == 1:
		case area <= fewest: // too short for vectors
			for r := range g.rowsNow {
				m := g.firstRow + r
				to := g.Out[(m/area*g.Cout+o)*area+m%area:]
				for i, v := range tile[r*nr:][:cols] {
					to[i*area] = v
				}
			}
		default:
			for r := 0; r < g.rowsNow; r += s.Lanes {
				for c := 0; c < cols; c += s.Lanes {
					vec.On(s).Transpose(turned[c*pitch+r:], pitch, tile[r*nr+c:], nr, min(s.Lanes, g.rowsNow-r),
						s.Lanes)
				}
			}
			g.copyOut(turned, pitch, g.firstRow, g.rowsNow, o, cols)
		}
		sc.Release(mark)
	}
}

// copyOut copies elements [m, m+n), counted over images, of output channels [o, o+rows) to the result. The channels lie
// ld elements apart.
func (g *convolution) copyOut(src []float32, ld, m, n, o, rows int) {
	area := elementwise.Volume(g.out)
	for end := m + n; m < end; {
		n := min(area-m%area, end-m) // of one image
		to := g.Out[(m/area*g.Cout+o)*area+m%area:]
		for r := range rows {
			copy(to[r*area:][:n], src[r*ld:])
		}
		m, src = m+n, src[n:]
	}
}
