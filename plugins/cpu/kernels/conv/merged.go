package conv

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
)

// Convolutions with channels first and few elements per channel, as in most layers of a network for small images, as
// one matrix product over all images. All threads pack the columns once. Then each thread reads some of the weights,
// and multiplies them by all columns or some.

const (
	mergedRoom  = 1 << 20 // maximum number of floats that the columns take
	mergedTasks = 4       // products for each thread, at least, if there are so many panels and blocks
)

// merged reports whether mergedColumns computes the convolution: if the images have too few columns for tasks of their
// own, or if these would read many weights again and again.
func (g *convolution) merged() bool {
	const manyWeights = 1 << 17
	nr, area := product.On(g.p.Set).NR, elementwise.Volume(g.out)
	k := g.cg * elementwise.Volume(g.Kernel)
	panels := pool.CeilDiv(g.N*area, nr)
	few := g.N*g.Groups*pool.CeilDiv(area, nr) < 8*g.p.Threads()
	return g.flat() && g.Groups*panels*nr*k <= mergedRoom && (few || area < 2*nr || g.og*k >= manyWeights)
}

// mergedSize returns the bytes that all workers share and the bytes of each worker.
func (g *convolution) mergedSize() pool.Size {
	on := product.On(g.p.Set)
	wide := pool.CeilDiv(g.N*elementwise.Volume(g.out), on.NR) * on.NR
	columns := min(g.Groups*wide*g.k, mergedRoom) // there may be fewer elements
	k := max(1, g.k)
	return pool.Size{Shared: pool.FloatBytes(columns + product.Spill),
		Worker: max(g.flatScratch(g.N, mergedRoom/(g.Groups*k)), pool.FloatBytes(g.blockSize(),
			g.blockRows()*min(wide, columns/k), g.blockRows()*on.NR, on.MR*on.NR,
			g.blockRows()*elementwise.Volume(g.Kernel)))}
}

// mergedColumns computes the convolution.
func (g *convolution) mergedColumns() {
	p, nr := g.p, product.On(g.p.Set).NR
	g.phase = g.phases[0]
	g.phaseTaps = g.taps[g.first:g.end]
	p.Shared.Reset()
	g.left = nil
	if g.Packed != nil {
		g.packLeft()
	} else {
		g.order()
	}
	if p.Bad.Load() != 0 {
		return
	}
	g.panels = pool.CeilDiv(g.N*elementwise.Volume(g.out), nr)
	g.packed = p.Shared.Floats(g.Groups*g.panels*nr*g.k + product.Spill)
	g.packAll(false, 0, g.N*elementwise.Volume(g.out), g.panels*nr)
	blocks := g.Groups * g.blocks()
	g.across = 1 // pieces of the panels
	if want := mergedTasks * p.Threads(); p.Threads() > 1 && blocks < want && g.left != nil {
		g.across = min(g.panels, pool.CeilDiv(want, blocks))
	}
	g.inTiles()
	p.Each(blocks*g.across, 1, (*mergedBlocks)(g))
}

// packAll packs elements [first, first+total) of all images for all groups, to packed. Workers take channels.
func (g *convolution) packAll(rows bool, first, total, across int) {
	parts := min(g.cg, max(1, 2*g.p.Threads()/g.Groups))
	if g.p.Threads() == 1 || g.k*total < pool.Grain {
		parts = 1
	}
	g.chunks, g.firstRow, g.rowsNow, g.byRows, g.room = parts, first, total, rows, across
	g.p.Each(g.Groups*parts, 1, (*flatPacking)(g))
}

type flatPacking convolution

func (x *flatPacking) Do(lo, hi, worker int) {
	g := (*convolution)(x)
	area := elementwise.Volume(g.out)
	for t := lo; t < hi; t++ {
		group, part := t/g.chunks, t%g.chunks
		g.packFlat(g.packed[group*g.room*g.k:], &flatPart{n: g.firstRow / area, first: g.firstRow % area,
			total: g.rowsNow, group: group, c: part * g.cg / g.chunks, end: (part + 1) * g.cg / g.chunks,
			rows: g.byRows, across: g.room}, g.p.Scratch(worker))
	}
}

// mergedBlocks computes pieces of blocks of output channels.
type mergedBlocks convolution

func (x *mergedBlocks) Do(lo, hi, worker int) {
	g := (*convolution)(x)
	s, sc, nr := g.p.Set, g.p.Scratch(worker), product.On(g.p.Set).NR
	area := elementwise.Volume(g.out)
	most := pool.CeilDiv(g.panels, g.across) * nr
	packed, c, bias := []float32(nil), sc.Floats(g.blockRows()*most), sc.Floats(g.blockRows()*nr)
	if g.left == nil {
		packed = sc.Floats(g.blockSize())
	}
	for t := lo; t < hi; t++ {
		mark := sc.Mark()
		block, piece := t/g.across, t%g.across
		group, o := block/g.blocks(), block%g.blocks()*g.blockRows()
		rows := min(g.blockRows(), g.og-o)
		first, end := piece*g.panels/g.across, (piece+1)*g.panels/g.across
		cols := min(end*nr, g.N*area) - first*nr
		// whole vectors, which the kernels store without a detour
		wide := pool.CeilDiv(cols, s.Lanes) * s.Lanes
		q := product.GemmArgs{M: rows, N: wide, K: g.k, C: c, LDC: wide}
		g.addBias(&q, bias, group*g.og+o, true)
		if g.left == nil {
			g.packBlock(packed, block, sc)
		} else {
			packed = g.left[block*g.blockSize():]
		}
		q.Tiles(s, sc, 0, 0, rows, 0, wide, packed, g.packed[group*g.panels*nr*g.k:], g.panels, first)
		g.activate(c[:rows*wide])
		g.copyOut(c, wide, first*nr, cols, group*g.og+o, rows)
		sc.Release(mark)
	}
}
