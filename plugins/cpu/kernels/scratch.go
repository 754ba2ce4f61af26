package kernels

import "reflect"

// ScratchSize is an upper bound of the memory that a kernel needs beside its operands, in bytes. It counts only what
// grows with the operands.
type ScratchSize struct {
	Shared int64 // scratch memory that all workers share
	Worker int64 // scratch memory of each worker
	Other  int64 // memory that the kernel allocates from Go and keeps for the next call
	Packed int64 // weights that are packed once and kept
}

// With returns a size that suffices for either of two kernels, which run one after the other.
func (r ScratchSize) With(o ScratchSize) ScratchSize {
	return ScratchSize{max(r.Shared, o.Shared), max(r.Worker, o.Worker), max(r.Other, o.Other), r.Packed + o.Packed}
}

// Bytes returns the total for all workers of a pool. It adds a quarter to Other and Packed, the most by which Go's
// allocator rounds up.
func (r ScratchSize) Bytes(p *Pool) int64 {
	own := r.Other + r.Packed
	return r.Shared + int64(len(p.workers))*r.Worker + own + own/4
}

// Reserve allocates the scratch memory in advance. allocate must return the given number of floats, aligned to 64
// bytes. Without Reserve the pool grows its memory when a kernel needs more, and holds the old block beside the new one
// until it is collected.
func (p *Pool) Reserve(r ScratchSize, allocate func(floats int64) ([]float32, error)) error {
	err := p.shared.reserve(r.Shared, allocate)
	for i := 0; i < len(p.workers) && err == nil; i++ {
		err = p.workers[i].scratch.reserve(r.Worker, allocate)
	}
	return err
}

func (s *scratch) reserve(bytes int64, allocate func(floats int64) ([]float32, error)) (err error) {
	if bytes > 4*int64(len(s.block)) {
		s.block, err = allocate(bytes / 4)
	}
	return err
}

// floats returns the size in bytes of slices of these lengths, as scratch.floats allocates them.
func floats(lengths ...int) (n int64) {
	for _, l := range lengths {
		n += 4 * int64((l+15)&^15)
	}
	return n
}

// sizeOf returns the size in bytes of n values of type T.
func sizeOf[T any](n int) int64 { return int64(n) * int64(reflect.TypeFor[T]().Size()) }

// ScratchSize returns what Gemm needs for up to M rows, N columns and Batch products of depth K. If the weights are
// fixed, it includes what PackWeights keeps. It reads only the sizes, the type of B, the precision, the activation and
// the transpositions of g. The bound covers a residual that is C itself.
func (g *GemmArgs) ScratchSize(p *Pool, fixed bool) (r ScratchSize) {
	s, way := p.Set, packingOf(p.Set, g.Precision)
	kb, depth, panels := way.kSplit(g.K), g.depth(way), (g.N+productOn(s).nr-1)/productOn(s).nr
	blocks := (g.K + kb - 1) / kb
	matrix := panels*productOn(s).nr*depth + spill // B, packed
	// A worker multiplies some rows of A by some panels of B, or all rows by a strip.
	high := min(way.rows(g.M), blockPanels*productOn(s).mr)
	if way == tiled {
		high = min(way.rows(g.M), 16*tileSide)
	}
	end := floats(productOn(s).mr * productOn(s).nr)
	if way == tiled {
		end = floats(high*tileSide, tileSide*tileSide, tileSide, high*tileSide)
	}
	if g.Act != Identity {
		group := g.N
		if way != tiled {
			group = min(g.N, groupPanels*productOn(s).nr)
		}
		end += floats(high * group) // a copy of the residual, if C is written before it is added
	}
	transposed := func(rows int) int64 {
		if way != tiled || !g.TransA {
			return 0
		}
		return int64(blocks) * floats(rows*kb)
	}
	pack := floats(s.Lanes*kb + way.buffer(productOn(s).nr, kb))
	r.Worker = max(floats(way.rows(high)*depth+spill, way.buffer(productOn(s).mr, kb))+transposed(high)+end+pack,
		g.stripWorker(s)+end+pack, g.rowsWorker(s), floats(g.K, gemvRun))
	own := ownSize + productOn(s).nr*(depth+g.K)
	if g.Batch >= ownProducts*len(p.workers) && way != tiled {
		r.Worker = max(r.Worker, floats(min(matrix, own), high*depth+spill)+max(pack, floats(way.buffer(productOn(s).mr, kb))+end))
	}
	packed := max(productOn(s).nr*depth, min(p.packedLimit, max(1, g.Batch)*min(matrix, p.packedLimit)))
	r.Shared = max(floats(packed+spill), g.stripShared(s), g.rowsShared(s))
	if few := min(g.M, packedDotRows); g.B.kind.IsPacked() {
		r.Shared = max(r.Shared, floats(few*g.K/32, few*g.K)) // sums and arranged activations
	}
	if n := len(p.workers); n > 1 && g.M >= ownRows*n && way != tiled {
		r.Other = int64(n) * floats(min(matrix, own))
	}
	if fixed && p.TakesBlocked(g.Precision) {
		r.Packed = floats(matrix)
	}
	if productOn(s).split != nil && g.B.kind.IsPacked() {
		r = r.With(g.splitScratch())
	}
	return r
}

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

// TopKScratch returns what TopK needs for rows of up to n elements.
func TopKScratch(p *Pool, n, k int) ScratchSize {
	return ScratchSize{Worker: floats(n / topKBlock), Other: 2 * int64(len(p.workers)) * sizeOf[ranked](k)}
}

// ScratchSize returns what Attention needs for up to B batch elements, SQ queries and SK keys. It reads only the sizes,
// the mask and the precision of g.
func (g *AttentionArgs) ScratchSize(p *Pool) (r ScratchSize) {
	sc, shared := scratch{counting: true}, scratch{counting: true}
	var a attnTile
	a.init(p.Set, &sc, g.Precision, min(g.SQ, g.mostPanels()*productOn(p.Set).nr), max(1, g.SK), g.DK, g.DV)
	r.Worker = 4 * int64(sc.need)
	x := attendingFew{AttentionArgs: *g}
	x.SQ = min(g.SQ, fewQueries)
	x.init(p, &shared, g.SK)
	sc = scratch{counting: true}
	new(fewRows).init(&x, &sc)
	return r.With(ScratchSize{Shared: 4 * int64(shared.need), Worker: 4 * int64(sc.need)})
}
