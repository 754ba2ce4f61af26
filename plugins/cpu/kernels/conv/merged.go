package conv

import (
	"math"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// Convolutions with channels first and few elements per channel, as at the end of a network, as one matrix product over
// all images. Most of the time goes into reading the weights, so each block of them is read once, packed in the
// second-level cache, and multiplied by all columns. Layers of ResNet-18 with 2 to 16 elements per channel and two
// images took 2 to 5.6 times as long with a product for each image.

const (
	mergedPanels = 4       // maximum number of panels for the elements of all images
	mergedRoom   = 1 << 19 // maximum number of floats that the columns take
)

// merged reports whether mergedColumns computes the convolution.
func (g *convolution) merged() bool {
	nr := product.On(g.p.Set).NR
	panels := pool.CeilDiv(g.N*elementwise.Volume(g.out), nr)
	size := g.Groups * panels * nr * g.cg * elementwise.Volume(g.Kernel)
	return !g.Transposed && !g.Last && elementwise.Volume(g.out) < 2*nr && panels <= mergedPanels &&
		size <= mergedRoom && g.N*g.Cin*elementwise.Volume(g.In) <= math.MaxInt32
}

// mergedSize returns the memory that all workers share and that of each worker, in bytes.
func (g *convolution) mergedSize() pool.Size {
	on := product.On(g.p.Set)
	panels := pool.CeilDiv(g.N*elementwise.Volume(g.out), on.NR)
	if panels > mergedPanels { // fewer elements may be merged
		panels = mergedPanels
	}
	wide := panels * on.NR
	return pool.Size{Shared: pool.FloatBytes(min(g.Groups*wide*g.k, mergedRoom) + product.Spill),
		Worker: pool.FloatBytes(g.blockSize(), g.blockRows()*wide, g.blockRows()*on.NR, on.MR*on.NR,
			g.blockRows()*elementwise.Volume(g.Kernel), g.blockRows()*wide)}
}

// mergedColumns computes the convolution.
func (g *convolution) mergedColumns() {
	p, on := g.p, product.On(g.p.Set)
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
	total := g.N * elementwise.Volume(g.out)
	g.panels, g.wide = pool.CeilDiv(total, on.NR), on.NR
	if total <= p.Set.Lanes {
		g.wide = p.Set.Lanes // one narrow panel
	}
	g.packed = p.Shared.Floats(g.Groups*g.panels*on.NR*g.k + product.Spill)
	p.Share(g.Groups*pool.CeilDiv(total, p.Set.Lanes), 1+pool.Grain/(g.k*p.Set.Lanes), (*mergedGather)(g))
	p.Each(g.Groups*g.blocks(), 1, (*mergedBlocks)(g))
}

// mergedGather packs vectors of columns.
type mergedGather convolution

func (x *mergedGather) Do(lo, hi, worker int) {
	g := (*convolution)(x)
	index := g.p.Scratch(worker).Index[:g.p.Set.Lanes]
	vectors := pool.CeilDiv(g.N*elementwise.Volume(g.out), g.p.Set.Lanes)
	for t := lo; t < hi; t++ {
		g.gatherMerged(t/vectors, t%vectors*g.p.Set.Lanes, index)
	}
}

// gatherMerged packs what the columns from v on read, as many as index has, for a group.
func (g *convolution) gatherMerged(group, v int, index []int32) {
	nr, taps, area := product.On(g.p.Set).NR, len(g.phaseTaps), elementwise.Volume(g.out)
	plane, pixels := elementwise.Volume(g.In), places(g.In)
	dst := g.packed[group*g.panels*nr*g.k:]
	x := g.X[group*g.cg*plane:]
	kb := product.Plain.KSplit(g.k)
	var at [16][3]int
	lanes := min(len(index), g.N*area-v)
	for i := range lanes {
		at[i] = g.pixel((v + i) % area)
	}
	for t := range g.phaseTaps {
		for i := range index {
			index[i] = -1
			if i >= lanes {
				continue
			}
			if from, inside := g.source(at[i], &g.phaseTaps[t]); inside {
				index[i] = int32((v+i)/area*g.Cin*plane + dot3(from, pixels))
			}
		}
		for k := 0; k < g.k; k += kb { // see KSplit
			size := min(kb, g.k-k)
			first := max(0, pool.CeilDiv(k-t, taps)) // the first channel whose tap lies in the block
			rows := pool.CeilDiv(k+size-t, taps) - first
			if k+size <= t || rows <= 0 {
				continue
			}
			to := dst[k*g.panels*nr+v/nr*nr*size+(first*taps+t-k)*g.wide+v%nr:]
			vec.On(g.p.Set).GatherRows(to, taps*g.wide, x[first*plane:], plane, rows, index)
		}
	}
}

// mergedBlocks computes blocks of output channels.
type mergedBlocks convolution

func (x *mergedBlocks) Do(lo, hi, worker int) {
	g := (*convolution)(x)
	s, sc, nr := g.p.Set, g.p.Scratch(worker), product.On(g.p.Set).NR
	area := elementwise.Volume(g.out)
	total := g.N * area
	packed, c, bias := []float32(nil), sc.Floats(g.blockRows()*total), sc.Floats(g.blockRows()*nr)
	if g.left == nil {
		packed = sc.Floats(g.blockSize())
	}
	for t := lo; t < hi; t++ {
		mark := sc.Mark()
		group, first := t/g.blocks(), t%g.blocks()*g.blockRows()
		rows := min(g.blockRows(), g.og-first)
		q := product.GemmArgs{M: rows, N: total, K: g.k, C: c, LDC: total, Wide: g.wide == nr}
		g.addBias(&q, bias, group*g.og+first)
		if g.left == nil {
			g.packBlock(packed, t, sc)
		} else {
			packed = g.left[t*g.blockSize():]
		}
		q.Tiles(s, sc, 0, 0, rows, 0, total, packed, g.packed[group*g.panels*nr*g.k:], g.panels, 0)
		for r := range rows {
			for n := range g.N {
				copy(g.Out[(n*g.Cout+group*g.og+first+r)*area:][:area], c[r*total+n*area:])
			}
		}
		sc.Release(mark)
	}
}
