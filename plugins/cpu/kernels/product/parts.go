package product

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// Products of floats, unrounded, in AMX tiles of bfloat16. As in packed_tiles.go, a float is the sum of three bfloat16,
// its parts, each of at most half the last place of the one before. Weights that are stored as bf16 have one part. The
// product of two floats is the sum of the products of their parts. Products of parts that are less than 2^-26 of it, a
// quarter of a rounding to float32, are left out. Each product of parts is exact; sums are rounded to float32, the
// smallest products of a block of k first.
//
// Parts below 2^-126 count as zero. So the product is computed in another way if all elements of an operand are small,
// or if an element is large, infinite or NaN.

const (
	partsMost   = 3
	partsBatch  = 512 // rows of A whose parts are kept at a time
	partsPanels = 8   // panels of B in a strip: 256 columns, whole blocks of all packed types
	partsLeast  = 64  // rows, columns and depth of the smallest product
	// rows of the smallest product by a matrix of several parts: dividing it takes as long as multiplying so many rows
	partsFloats = 256
)

// partsFloatsEach is the least number of columns, and the least depth, of a product by a matrix of several parts.
// Smaller ones are slower than in vectors (BenchmarkParts). Tests lower it.
var partsFloatsEach = 2048

// Bounds of the largest magnitude of an operand.
const partsLow, partsHigh = 0x1p-80, 0x1p60

// partsOf returns the number of parts of a stored value, or 0 if there are no products in parts for the type.
func partsOf(d dtype.DType) int {
	switch {
	case d == dtype.BF16:
		return 1
	case d == dtype.F32 || d == dtype.F16 || d.IsPacked():
		return partsMost
	}
	return 0
}

// inParts reports whether gemmParts computes a product.
func (g *GemmArgs) inParts(s *isa.Set, batch int) bool {
	return On(s).parts != nil && batch == 1 && g.Precision == Float32 && g.ABlocked == nil && g.CBlocked == nil &&
		!g.Wide && !g.Repeats && min(g.M, g.N, g.K) >= partsLeast && partsOf(g.B.Kind) > 0 &&
		(partsOf(g.B.Kind) == 1 || g.M >= partsFloats && min(g.N, g.K) >= partsFloatsEach) &&
		(!g.B.Kind.IsPacked() || (g.B.Start|g.LDB)%g.B.Kind.Values() == 0)
}

// partProduct is a product in parts, of rows [m, m+rows).
type partProduct struct {
	p       *pool.Pool
	g       *GemmArgs
	kb      int // depth of a block of k
	parts   int // of B
	m, rows int
	high    int // rows, rounded up to blocks
	// The parts of A: for each block of k, a plane [high/32][steps][32 rows, 32 bfloat16] for each part
	a     []float32
	panel int // panels of B in a strip
	// largest magnitude of each 32 rows of A, and of each strip of B
	mostA, mostB []float32
	checks       bool // only pack B, to see whether its values allow the product
}

// gemmParts computes a product. It returns false if the values of an operand prevent that.
func gemmParts(p *pool.Pool, g *GemmArgs) bool {
	x := pool.Keep[partProduct](p)
	kept := *x
	*x = partProduct{p: p, g: g, kb: Tiled.KSplit(g.K), parts: partsOf(g.B.Kind), panel: g.partsWidth(p)}
	panels := pool.CeilDiv(g.N, TileSide)
	strips := pool.CeilDiv(panels, x.panel)
	x.mostA = pool.Sized(kept.mostA, partsBatch/TileSide)
	x.mostB = pool.Sized(kept.mostB, strips)
	largest := float32(0)
	for m := 0; m < g.M; m += partsBatch {
		x.m, x.rows = m, min(partsBatch, g.M-m)
		x.high = Tiled.Rows(x.rows)
		p.Shared.Reset()
		x.a = p.Shared.Floats(partsMost*x.high*g.depth(Tiled) + Spill)
		x.mostA = x.mostA[:x.high/TileSide]
		pool.Split(p, x.high/TileSide, 1, partPacking{x})
		for _, v := range x.mostA {
			largest = max(largest, v) // NaN if one is
		}
		if !(largest <= partsHigh) {
			return false
		}
		if m == 0 && g.over() { // a residual that is lost if the values prevent the product
			x.checks = true
			pool.Split(p, strips, 1, partStrips{x})
			x.checks = false
			if !allowsParts(x.mostB) {
				return false
			}
		}
		pool.Split(p, strips, 1, partStrips{x})
		if m == 0 && !allowsParts(x.mostB) {
			return false
		}
	}
	return largest >= partsLow || largest == 0
}

// allowsParts reports whether a matrix of these largest magnitudes can be multiplied in parts.
func allowsParts(most []float32) bool {
	largest := float32(0)
	for _, v := range most {
		largest = max(largest, v)
	}
	return largest == 0 || largest >= partsLow && largest <= partsHigh
}

// partsWidth returns the number of panels in a strip. All widths give the same bits.
func (g *GemmArgs) partsWidth(p *pool.Pool) int {
	wide := partsPanels
	for wide > 1 && pool.CeilDiv(g.N, TileSide) < 2*wide*p.Threads() && !g.B.Kind.IsPacked() {
		wide /= 2
	}
	return wide
}

// partsScratch returns the memory that gemmParts needs.
func (g *GemmArgs) partsScratch(p *pool.Pool) (r pool.Size) {
	if On(p.Set).parts == nil || g.Precision != Float32 {
		return r
	}
	high, kb := Tiled.Rows(min(g.M, partsBatch)), Tiled.KSplit(g.K)
	deep := Tiled.Depth(kb) * 2
	const area = TileSide * TileSide
	r.Shared = pool.FloatBytes(partsMost*high*g.depth(Tiled) + Spill)
	r.Worker = pool.FloatBytes(partsPanels*high*TileSide, partsMost*partsPanels*TileSide*deep/2+Spill, area, TileSide,
		high*TileSide, partsPanels*TileSide*deep, partsMost*TileSide*deep/2+Spill, TileSide*deep+Spill)
	if g.Act != elementwise.Identity {
		r.Worker += pool.FloatBytes(high * partsPanels * TileSide)
	}
	r.Worker = max(r.Worker, pool.FloatBytes(TileSide*(deep+Spill)))
	r.Other = pool.SizeOf[float32](partsBatch/TileSide + pool.CeilDiv(g.N, TileSide))
	return r
}

// plane returns the parts of A for the block of k that begins at k.
func (x *partProduct) plane(k, part int) []float32 {
	n := min(x.kb, x.g.K-k)
	return x.a[x.high*(partsMost*Tiled.Depth(k)+part*Tiled.Depth(n)):]
}

// partStrips computes strips of columns.
type partStrips struct{ *partProduct }

func (x *partStrips) Do(lo, hi, w int) {
	const area = TileSide * TileSide
	g, s, sc := x.g, x.p.Set, x.p.Scratch(w)
	deep := 2 * Tiled.Depth(x.kb)
	y := partStrip{partProduct: x.partProduct, sums: sc.Floats(x.panel * x.high * TileSide),
		b:     sc.Floats(x.parts*x.panel*TileSide*deep/2 + Spill),
		block: sc.Floats(area),
		bias:  sc.Floats(TileSide),
		edge:  sc.Floats(x.high * TileSide),
		packing: partsOfB{s: s, g: g, parts: x.parts, buf: sc.Floats(partsMost*TileSide*deep/2 + Spill),
			panel: sc.Floats(TileSide*deep + Spill)}}
	if g.B.Kind.IsPacked() && !g.TransB {
		y.packing.wide = sc.Floats(x.panel * TileSide * deep)
	}
	for t := lo; t < hi; t++ {
		y.j = t * x.panel * TileSide
		y.cols = min(x.panel*TileSide, g.N-y.j)
		y.packing.most = 0
		kept := g.keep(sc, 0, x.m, x.rows, y.j, y.cols)
		for k := 0; k < g.K; k += x.kb {
			y.multiply(s, k)
		}
		if g.Act != elementwise.Identity && !x.checks {
			g.epilogue(s, 0, x.m, x.rows, y.j, y.cols, kept)
		}
		x.mostB[t] = y.packing.most
	}
	if !x.checks {
		vec.On(s).StoreFence()
	}
}

// partStrip computes one strip.
type partStrip struct {
	*partProduct
	j, cols           int
	sums              []float32 // [panels][high/32][32, 32]
	b                 []float32 // [panels][parts][k/2][32 columns] of pairs, for a block of k
	block, bias, edge []float32
	packing           partsOfB
}

// multiply adds the products of the block of k that begins at k.
func (y *partStrip) multiply(s *isa.Set, k int) {
	n := min(y.kb, y.g.K-k)
	depth := Tiled.Depth(n)
	y.packing.strip(y.j, y.cols, k, n)
	for q := 0; q < y.cols; q += TileSide {
		y.packing.pack(y.b[q*y.parts*depth:], TileSide*depth, y.j, q, min(TileSide, y.cols-q), k, n)
	}
	if y.checks {
		return
	}
	for q := 0; q < y.cols; q += TileSide {
		t := tilePanel{blocks: y.high / TileSide, steps: depth / (TileSide / 2), times: 1,
			sum: y.sums[q*y.high:][:y.high*TileSide], resume: k > 0}
		for sum := partsMost - 1; sum >= 0; sum-- { // the smallest products first
			for j := min(sum, y.parts-1); j >= 0; j-- {
				t.a, t.b = y.plane(k, sum-j), y.b[(q*y.parts+j*TileSide)*depth:]
				if sum == 0 && k+y.kb >= y.g.K {
					y.end(s, t, q)
					break
				}
				On(s).tilePanel(&t)
				t.resume = true
			}
		}
	}
}

// end adds the last products of the panel at column q of the strip, and stores the results.
func (y *partStrip) end(s *isa.Set, t tilePanel, q int) {
	g, w := y.g, min(TileSide, y.cols-q)
	clear(y.bias)
	if g.Bias != nil {
		copy(y.bias[:w], g.Bias[y.j+q:])
	}
	t.end, t.bias, t.block = tileRows, y.bias, y.block
	fused := g.Act == elementwise.Identity
	c := g.C[y.m*g.LDC+y.j+q:]
	var residual []float32
	if fused && g.Residual != nil {
		residual = g.Residual[y.m*g.LDR+y.j+q:]
	}
	blocks, whole := t.blocks, 0 // number of blocks, and of blocks that lie in C entirely
	if w == TileSide {
		whole = y.rows / TileSide
	}
	if whole > 0 {
		e := t
		e.blocks, e.out, e.outStep, e.residual, e.residualStep = whole, c, g.LDC, residual, g.LDR
		e.stream = g.M*g.N > tileStream && fused && !g.over()
		On(s).tilePanel(&e)
	}
	if whole == blocks {
		return
	}
	const area = TileSide * TileSide
	from := whole * TileSide
	t.blocks, t.a, t.sum = blocks-whole, t.a[whole*t.steps*area/2:], t.sum[whole*area:]
	t.out, t.outStep = y.edge, TileSide
	if residual != nil {
		for r := from; r < y.rows; r++ {
			copy(y.edge[(r-from)*TileSide:][:w], residual[r*g.LDR:])
		}
		t.residual, t.residualStep = y.edge, TileSide
	}
	On(s).tilePanel(&t)
	for r := from; r < y.rows; r++ {
		copy(c[r*g.LDC:][:w], y.edge[(r-from)*TileSide:])
	}
}
