package product

import (
	"unsafe"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// Products of packed weights with few rows of rounded activations, as they occur when a server computes a token for
// several texts at once. Each weight is used so few times that the transposition of unpacked weights, which
// multiplyIntegers needs, takes longer than the product. So the weights become the left operand: a block of C is
// computed transposed, from weights as unpack leaves them, or even as they are stored, and from activations that are
// transposed once.

// fewRows is the largest number of rows for which this way is faster than multiplyIntegers, of all formats.
const fewRows = 64

// fewDepth is the number of values along k that are unpacked at a time. Those of 16 columns stay in the first-level
// cache.
const fewDepth = 2048

// fewStride is the distance between unpacked columns, in bytes. It is no multiple of 4096, so that columns do not share
// cache sets.
const fewStride = fewDepth + 64

// multipliesFew reports whether multiplyFew computes the product.
func (g *GemmArgs) multipliesFew(s *isa.Set) bool {
	few := On(s).integerFormats[g.B.Kind].few
	return few[1] > 0 && g.M >= few[0] && g.M <= few[1] && g.Precision == Float32 && g.K > 0 &&
		multipliesPacked(s, g.B.Kind)
}

// multiplyFew computes a product that multipliesFew accepts. Its result has the same bits as that of multiplyIntegers.
func (x *rounding) multiplyFew(p *pool.Pool, g *GemmArgs) {
	x.packRows(p, g, true)
	panels := (g.N + integerSide - 1) / integerSide
	pool.Split(p, panels, max(1, panels/(8*p.Threads())), fewStrips{x, p, *g})
}

// fewScratch returns how many bytes of scratch memory a worker needs for m rows.
func (f integerFormat) fewScratch(m int) int64 {
	const side = integerSide
	scales := side * fewDepth / f.group
	blocks := (min(m, fewRows) + side - 1) / side
	return pool.FloatBytes(side*fewStride/4, scales, scales, scales, scales, blocks*side*side, side*side,
		2*side*side)
}

// fewStrips multiplies all rows by panels of 16 columns.
type fewStrips struct {
	x *rounding
	p *pool.Pool
	g GemmArgs
}

func (x *fewStrips) Do(lo, hi, w int) {
	const side = integerSide
	g, s, sc := &x.g, x.p.Set, x.p.Scratch(w)
	f := On(s).integerFormats[g.B.Kind]
	k, blocks := g.K, (g.M+side-1)/side
	values, size, scales := g.B.Kind.Values(), g.B.Kind.Size(), side*fewDepth/f.group
	u := fewColumns{g, f, int8sOf(sc.Floats(side * fewStride / 4)), sc.Floats(scales), sc.Floats(scales)}
	dw, low := sc.Floats(scales), sc.Floats(scales)
	acc, across, room := sc.Floats(blocks*side*side), sc.Floats(side*side), sc.Floats(2*side*side)
	for t := lo; t < hi; t++ {
		j := t * side
		cols := min(side, g.N-j)
		for from := 0; from < k; from += fewDepth {
			depth := min(fewDepth, k-from)
			groups, first := depth/f.group, from/f.group
			r := groupProduct{rows: side, groups: groups, group: f.group, resume: from > 0, room: room, ldc: side,
				dx: dw[:groups*side]}
			if f.scales != nil && cols == side {
				stride := g.LDB / values * size
				w := g.B.Bytes[(g.B.Start+j*g.LDB+from)/values*size:][:(side-1)*stride+depth/values*size]
				f.scales(dw, w, stride, groups)
				r.a, r.lda, r.stepA = signed(w)[size-values:], stride, size
			} else {
				u.unpack(j, from, depth, cols)
				columnsOf(s, dw, u.scale, groups)
				if f.lows {
					columnsOf(s, low, u.low, groups)
				}
				r.a, r.lda, r.stepA = u.q, fewStride, f.group
			}
			next := x.ahead(t, hi, from+depth)
			for b := range blocks {
				at, n := (b*k/f.group+first)*side, groups*side
				r.ahead, r.b, r.dw = next, x.x.tiles[(b*k+from)*side:][:depth*side], x.x.dx[at:][:n]
				if f.lows {
					r.xs, r.low = low[:n], x.x.xs[at:][:n]
				}
				r.c = acc[b*side*side:][:side*side]
				f.multiply(r)
				next = groupsAhead{}
			}
		}
		for b := range blocks {
			columnsOf(s, across, acc[b*side*side:][:side*side], side)
			for i := range min(side, g.M-b*side) {
				copy(g.C[(b*side+i)*g.LDC+j:][:cols], across[i*side:])
			}
		}
	}
}

// signed returns the memory of w as signed bytes.
func signed(w []byte) []int8 {
	return unsafe.Slice((*int8)(unsafe.Pointer(unsafe.SliceData(w))), len(w))
}

// fewColumns holds the unpacked weights of 16 columns.
type fewColumns struct {
	g          *GemmArgs
	f          integerFormat
	q          []int8    // [16 columns][fewStride]
	scale, low []float32 // [16 columns][groups]
}

// unpack unpacks `depth` values, from value `from` on, of columns [j, j+cols). Others become zero.
func (u *fewColumns) unpack(j, from, depth, cols int) {
	b, groups := u.g.B, depth/u.f.group
	values, size := b.Kind.Values(), b.Kind.Size()
	for i := range integerSide {
		q := u.q[i*fewStride:][:depth]
		scale, low := u.scale[i*groups:][:groups], u.low[i*groups:][:groups]
		if i < cols {
			at := (b.Start + (j+i)*u.g.LDB + from) / values * size
			u.f.unpack(q, scale, low, b.Bytes[at:][:depth/values*size])
			continue
		}
		clear(q)
		clear(scale)
		clear(low)
	}
}

// groupsAhead says which weights groupProduct prefetches: with each group so many lines from `from` on, and after so
// many groups those that follow skip bytes later.
type groupsAhead struct {
	from                *byte
	lines, groups, skip int
}

// ahead returns the weights that panel t, or if k is at the end the next one, multiplies from value k on.
func (x *fewStrips) ahead(t, end, k int) groupsAhead {
	const line = 64
	g := &x.g
	if k == g.K {
		t, k = t+1, 0
	}
	if t == end {
		return groupsAhead{}
	}
	kind, depth := g.B.Kind, min(fewDepth, g.K-k)
	row, stride := depth/kind.Values()*kind.Size(), g.LDB/kind.Values()*kind.Size()
	at := (g.B.Start + t*integerSide*g.LDB + k) / kind.Values() * kind.Size()
	groups := max(1, depth/On(x.p.Set).integerFormats[kind].group/integerSide) // of a row
	lines := (row + groups*line - 1) / (groups * line)
	return groupsAhead{&g.B.Bytes[at], lines, groups, stride - groups*lines*line}
}
