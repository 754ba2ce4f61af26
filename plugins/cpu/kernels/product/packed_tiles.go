package product

import (
	"math"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// Products of packed weights and unrounded activations, in AMX tiles of bfloat16. The significand of a bfloat16 has 8
// bits and that of a float32 has 24, so each activation is the sum of three bfloat16, its parts. The integers of a
// block are exact in bfloat16. Thus no operand is rounded, and each product is exact; only sums are rounded, to
// float32. The sum of a group (values that share a scale) is scaled, and groups are added in order. Parts below 2^-126
// count as zero.
//
// Three products in tiles take a fifth of the time of one with vectors of float32, unless something else, such as
// memory, limits them.

// splitRoutines are the routines of a set for these products. See splitProduct for the operands.
type splitRoutines struct {
	// rows packs at most 16 rows of 32*steps activations, which start ld apart, for groups of 16 or 32 values. It
	// returns the bits of the largest magnitude. NaN counts as the largest.
	rows func(dst, sums, src []float32, ld, rows, steps, group int) uint32
	// pairs converts weights from bytes [16 columns][4] to bfloat16 [2][16 columns][2]. Every `each` floats of src
	// become 2*each floats of dst. These begin step floats apart.
	pairs    func(dst []float32, step int, src []float32, each int)
	multiply func(r splitProduct)
}

// splitProduct describes a product of 16 rows and an even number of panels of 16 columns: C = the sum over groups of
// scale*(a·b) - low*sums, where a·b is the sum of products within the group.
type splitProduct struct {
	panels, groups, group int
	a                     []float32 // [groups][3 parts][16 rows][group] of bfloat16
	sums                  []float32 // [groups][16 rows]: the sums of the activations
	b                     []float32 // [groups][panels][group/2][16 columns][2] of bfloat16
	// [groups][panels][16 columns]; low is nil for formats without lows, see integerFormat
	scale, low []float32
	c          []float32 // [16, 16*panels]
	ldc        int
	resume     bool      // add to C
	room       []float32 // scratch: splitRoom(panels) floats
}

const (
	splitSide  = 16
	splitParts = 3
	splitBatch = 512 // rows that are split at a time
	splitStrip = 256 // columns whose weights are unpacked at a time
	// values of k that are unpacked at a time, in whole blocks of every type: they stay in the second-level cache
	splitDepth  = 2048
	splitUnpack = 512 // values of k for which one panel of the strip is unpacked at a time
)

// splitRoom returns the length of splitProduct.room.
func splitRoom(panels int) int { return (panels + 2) * splitSide * splitSide }

// splitA returns how many floats of memory the parts of 16 rows of k activations take.
func splitA(k int) int { return splitSide * k * splitParts / 2 }

// splitsPacked reports whether gemmSplit can compute the product.
func (g *GemmArgs) splitsPacked(s *isa.Set, batch int) bool {
	f := On(s).integerFormats[g.B.Kind]
	return On(s).split != nil && g.M > packedDotRows && batch == 1 && g.Precision == Float32 && f.unpack != nil &&
		f.excess == 0 &&
		g.K > 0 && g.LDB == g.K && g.TransB && !g.TransA &&
		(g.B.Start|g.K)%g.B.Kind.Values() == 0 && g.Bias == nil && g.Act == elementwise.Identity && g.Residual == nil
}

// gemmSplit computes a product of more than packedDotRows rows. It returns false if an activation is NaN or its
// magnitude is packedLimit or more. C then has arbitrary values.
func gemmSplit(p *pool.Pool, g *GemmArgs) bool {
	f := On(p.Set).integerFormats[g.B.Kind]
	most := pool.Keep[splitMost](p)
	for m := 0; m < g.M; m += splitBatch {
		one := *g
		one.M, one.A, one.C = min(splitBatch, g.M-m), g.A[m*g.LDA:], g.C[m*g.LDC:]
		x := packedTiles{p: p, g: one, f: f, groups: g.K / f.group}
		blocks := (one.M + splitSide - 1) / splitSide
		p.Shared.Reset()
		x.a, x.sums = p.Shared.Floats(blocks*splitA(g.K)), p.Shared.Floats(blocks*splitSide*x.groups)
		if cap(most.bits) < blocks {
			most.bits = make([]uint32, blocks)
		}
		most.bits = most.bits[:blocks]
		pool.Split(p, blocks, 1+pool.Grain/(splitSide*g.K), splitPacking{x, most.bits})
		for _, bits := range most.bits {
			if bits >= math.Float32bits(packedLimit) { // or NaN
				return false
			}
		}
		x.strip = splitStrip
		for x.strip > 2*splitSide && g.N < 4*x.strip*p.Threads() {
			x.strip /= 2
		}
		pool.Split(p, (g.N+x.strip-1)/x.strip, 1, x)
	}
	return true
}

// splitMost holds the bits of the largest magnitude of each 16 rows.
type splitMost struct{ bits []uint32 }

// splitScratch returns the memory that gemmSplit needs.
func (g *GemmArgs) splitScratch() pool.Size {
	k, groups := g.K, g.K/splitSide
	blocks := (min(g.M, splitBatch) + splitSide - 1) / splitSide
	strip := splitColumns(min(g.N, splitStrip))
	deep := min(k, splitDepth)
	return pool.Size{
		Shared: pool.FloatBytes(blocks*splitA(k), blocks*splitSide*groups),
		Worker: pool.FloatBytes(strip*deep/2, strip*deep/splitSide, strip*deep/splitSide, splitSide*splitUnpack/4,
			splitSide*splitUnpack/4,
			splitUnpack, splitUnpack, splitSide*strip, splitRoom(strip/splitSide)),
		Other: pool.SizeOf[uint32](blocks),
	}
}

// packedTiles computes strips of columns of C, for all rows.
type packedTiles struct {
	p      *pool.Pool
	g      GemmArgs
	f      integerFormat
	groups int // in K
	strip  int
	a      []float32 // blocks of 16 rows of [groups][3 parts][16 rows][group] of bfloat16
	sums   []float32 // blocks of [groups][16 rows]
}

// splitPacking splits the activations of blocks of 16 rows.
type splitPacking struct {
	packedTiles
	most []uint32
}

func (x *splitPacking) Do(lo, hi, _ int) {
	g, k := &x.g, x.g.K
	for b := lo; b < hi; b++ {
		a, sums := x.a[b*splitA(k):][:splitA(k)], x.sums[b*splitSide*x.groups:][:splitSide*x.groups]
		rows := min(splitSide, g.M-b*splitSide)
		if rows < splitSide {
			clear(a)
			clear(sums)
		}
		x.most[b] = On(x.p.Set).split.rows(a, sums, g.A[b*splitSide*g.LDA:], g.LDA, rows, k/32, x.f.group)
	}
}

// splitColumns rounds a number of columns up to whole pairs of panels.
func splitColumns(n int) int { return (n + 2*splitSide - 1) &^ (2*splitSide - 1) }

func (x *packedTiles) Do(lo, hi, w int) {
	g, f, s, sc := &x.g, x.f, x.p.Set, x.p.Scratch(w)
	group, k := f.group, g.K
	deep := min(k, splitDepth)
	strip := splitColumns(min(x.strip, g.N))
	b, scale, low := sc.Floats(strip*deep/2), sc.Floats(strip*deep/group), sc.Floats(strip*deep/group)
	unpacking := newSplitUnpacking(sc, s, g, f)
	edge, room := sc.Floats(splitSide*strip), sc.Floats(splitRoom(strip/splitSide))
	for t := lo; t < hi; t++ {
		j := t * x.strip
		cols := min(x.strip, g.N-j)
		wide := splitColumns(cols)
		for from := 0; from < k; from += deep {
			n := min(deep, k-from)
			for q := 0; q < wide; q += splitSide {
				unpacking.panel(b[q*group/2:], scale[q:], low[q:], wide, j+q, from, n)
			}
			r := splitProduct{panels: wide / splitSide, groups: n / group, group: group, b: b, scale: scale,
				resume: from > 0, room: room}
			if f.lows {
				r.low = low
			}
			for m := 0; m < g.M; m += splitSide {
				r.a, r.sums = x.a[m/splitSide*splitA(k)+splitA(from):],
					x.sums[(m/splitSide*x.groups+from/group)*splitSide:]
				c := g.C[m*g.LDC+j:]
				rows := min(splitSide, g.M-m)
				if rows == splitSide && cols == wide {
					r.c, r.ldc = c, g.LDC
					On(s).split.multiply(r)
					continue
				}
				r.c, r.ldc = edge, wide
				for i := range rows {
					copy(edge[i*wide:], c[i*g.LDC:][:cols])
				}
				On(s).split.multiply(r)
				for i := range rows {
					copy(c[i*g.LDC:][:cols], edge[i*wide:])
				}
			}
		}
	}
}

// splitUnpacking unpacks the weights of panels of 16 columns.
type splitUnpacking struct {
	s             *isa.Set
	g             *GemmArgs
	f             integerFormat
	q, across     []float32 // bytes: [16 columns][splitUnpack]; transposed, [splitUnpack/4][16 columns][4]
	scale, lowest []float32 // [16 columns][groups]
}

func newSplitUnpacking(sc *pool.Scratch, s *isa.Set, g *GemmArgs, f integerFormat) splitUnpacking {
	const bytes, scales = splitSide * splitUnpack / 4, splitUnpack
	return splitUnpacking{s, g, f, sc.Floats(bytes), sc.Floats(bytes), sc.Floats(scales), sc.Floats(scales)}
}

// panel unpacks the weights of columns [j, j+16) for values [from, from+n) of k. They are part of a strip of `wide`
// columns. Columns past the end of B are zero.
func (u *splitUnpacking) panel(b, scale, low []float32, wide, j, from, n int) {
	g, group := u.g, u.f.group
	values, size := g.B.Kind.Values(), g.B.Kind.Size()
	cols := max(0, min(splitSide, g.N-j))
	for at := 0; at < n; at += splitUnpack {
		deep := min(splitUnpack, n-at)
		groups := deep / group
		if cols < splitSide {
			clear(u.q)
			clear(u.scale)
			clear(u.lowest)
		}
		for i := range cols {
			w := g.B.Bytes[(g.B.Start+(j+i)*g.LDB+from+at)/values*size:][:deep/values*size]
			u.f.unpack(int8sOf(u.q[i*deep/4:][:deep/4]), u.scale[i*groups:][:groups], u.lowest[i*groups:][:groups], w)
		}
		columnsOf(u.s, u.across, u.q, deep/4)
		first := at / group
		On(u.s).split.pairs(b[first*wide*group/2:], wide*group/2, u.across[:deep*splitSide/4], splitSide*group/4)
		columnsInto(u.s, scale[first*wide:], wide, u.scale, groups)
		if u.f.lows {
			columnsInto(u.s, low[first*wide:], wide, u.lowest, groups)
		}
	}
}
