package product

import (
	"unsafe"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/quant"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// Products of packed weights with activations that are rounded to 8 bits, computed in integers. The blocks of a strip
// of weights are unpacked to bytes once and multiplied by all rows. A group is a run of values along k that share a
// scale. Its sum of products is an exact integer, in any order of additions. The sum is scaled, and the groups are
// added in order.

// integerFormat unpacks blocks of a packed type to integers of 8 bits, and multiplies these. A value is scale*q - low.
// All values of a group have the same scale and the same low (the minimum of GGUF's formats, subtracted).
type integerFormat struct {
	group int  // values in a group: 16 or 32
	lows  bool // false if low is always 0
	// unpack sets q to the integers of the blocks in w, and scale and low to one number for each group. low is as long
	// as scale. Without lows it is not written.
	unpack func(q []int8, scale, low []float32, w []byte)
	// excess is added to every integer by unpack, for products that take unsigned ones.
	excess int
	// nibbles: unpack splits the 32 integers of a group into 32 times q&15, then 32 times q>>4 + excess.
	nibbles bool
	// dots is the largest number of rows that are multiplied one by one, by byteDot.
	dots int
	// few has the smallest and the largest number of rows of products that multiplyFew computes; zeros: none. Then
	// multiply takes groupProduct.lda.
	few [2]int
	// scales sets dst, [blocks][16], to the scales of blocks in 16 rows of w, stride bytes apart. The integers of such
	// blocks are multiplied in place. nil: they need unpacking.
	scales   func(dst []float32, w []byte, stride, blocks int)
	multiply func(r groupProduct)
	eights   eightsFormat // if it has multiply, it is used for more than dots rows; without it the format has no excess
}

// width returns how many bytes unpack writes for a value.
func (f integerFormat) width() int {
	if f.nibbles {
		return 2
	}
	return 1
}

// integerSide is the number of rows and of columns that integerFormat.multiply computes.
const integerSide = 16

// groupProduct describes a product of 16 rows and 16 columns: C = the sum over groups of dx*dw*(a·b) - xs*low, where
// a·b is the sum of products of integers within the group.
type groupProduct struct {
	rows, groups, group int         // rows in use, at most 16; number of groups; values in a group
	a                   []int8      // [groups][16 rows][group], or, if lda is not 0, [16 rows][lda]
	lda, stepA          int         // if lda is not 0: bytes from row to row, and from group to group
	ahead               groupsAhead // what is prefetched; only if lda is not 0
	dx, xs              []float32   // [groups][16 rows]: the scale of a; the sum of a times its scale
	b                   []int8      // [groups][group/4][16 columns][4]
	// [groups][16 columns]: the scale and the low of b; low is nil for formats without lows
	dw, low []float32
	c       []float32 // [16, 16]
	ldc     int
	resume  bool      // add to C
	room    []float32 // [2, 16, 16], scratch
}

// integerDepth is the number of values along k in one pass over the rows. With 1024, 16 rows and 16 columns stay in the
// first-level cache.
const integerDepth = 1024

// integerStrip is the number of columns whose weights are unpacked at a time.
const integerStrip = 64

// int8sOf returns the memory of x as bytes.
func int8sOf(x []float32) []int8 {
	return unsafe.Slice((*int8)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}

// quadsOf returns the memory of x as 32-bit integers.
func quadsOf(x []int8) []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(x))), len(x)/4)
}

// integerBatch is the largest number of rows that are rounded and multiplied at a time.
const integerBatch = 1024

// multipliesPacked reports whether the set multiplies packed weights as integers.
func multipliesPacked(s *isa.Set, d dtype.DType) bool {
	f := On(s).integerFormats[d]
	return (f.multiply != nil || f.eights.multiply != nil) && On(s).roundRow != nil
}

// multiplyIntegers computes g in integers, with activations rounded to 8 bits.
func (x *rounding) multiplyIntegers(p *pool.Pool, g *GemmArgs) {
	f := On(p.Set).integerFormats[g.B.Kind]
	rows, c := g.M, g.C
	one := *g
	for m := 0; m < rows; m += integerBatch {
		one.M, one.A, one.C = min(integerBatch, rows-m), g.A[m*g.LDA:], c[m*g.LDC:]
		x.packRows(p, &one, false)
		strip := integerStrip
		for strip > integerSide && g.N < 4*strip*p.Threads() {
			strip /= 2
		}
		pool.Split(p, (g.N+strip-1)/strip, 1, integerStrips{x, p, one, f, strip})
	}
}

// packRows rounds the rows of g.A, and packs them as groupProduct.a, or as b if they are the right operand.
func (x *rounding) packRows(p *pool.Pool, g *GemmArgs, right bool) {
	f := On(p.Set).integerFormats[g.B.Kind]
	blocks := (g.M + integerSide - 1) / integerSide
	groups := g.K / f.group
	x.tiles = pool.Sized(x.tiles, blocks*integerSide*g.K)
	x.dx, x.xs = pool.Sized(x.dx, blocks*integerSide*groups), pool.Sized(x.xs, blocks*integerSide*groups)
	pool.Split(p, blocks, 1+pool.Grain/(integerSide*g.K), integerPacking{x, p, *g, f, right})
}

// scratch returns how many bytes of scratch memory a worker needs for rows of k values.
func (f integerFormat) scratch(k, groups int) int64 {
	const side = integerSide
	strip := pool.FloatBytes(integerStrip*k/4, integerStrip*groups, integerStrip*groups)
	return strip + pool.FloatBytes(side*k/4, side*groups, side*groups, side*side, 2*side*side)
}

// integerPacking rounds blocks of 16 rows. See packRows for right.
type integerPacking struct {
	x     *rounding
	p     *pool.Pool
	g     GemmArgs
	f     integerFormat
	right bool
}

func (x *integerPacking) Do(lo, hi, w int) {
	k, group, s, sc := x.g.K, x.f.group, x.p.Set, x.p.Scratch(w)
	q, scale, sums := int8sOf(sc.Floats(k/4)), sc.Floats(k/quant.Group), sc.Floats(k/16)
	groups := k / group
	for b := lo; b < hi; b++ {
		to := x.x.tiles[b*integerSide*k:][:integerSide*k]
		at := b * integerSide * groups
		dx, xs := x.x.dx[at:][:integerSide*groups], x.x.xs[at:][:integerSide*groups]
		for r := range integerSide {
			m := b*integerSide + r
			if m >= x.g.M { // the rows of A end within the block
				clear(q)
				clear(scale)
				clear(sums)
			} else {
				On(s).roundRow(q, scale, sums, x.g.A[m*x.g.LDA:][:k])
			}
			if x.right {
				quads := quadsOf(q)
				for i, quad := range quads {
					quadsOf(to)[i*integerSide+r] = quad
				}
			}
			for i := range groups {
				own := q[i*group:][:group]
				if !x.right {
					copy(to[(i*integerSide+r)*group:], own)
				}
				sum, d := sums[i], scale[i*group/quant.Group]
				if group == 32 {
					sum = sums[2*i] + sums[2*i+1]
				}
				dx[i*integerSide+r], xs[i*integerSide+r] = d, d*sum
			}
		}
	}
}

// integerStrips multiplies all rows by strips of columns.
type integerStrips struct {
	x     *rounding
	p     *pool.Pool
	g     GemmArgs
	f     integerFormat
	strip int
}

func (x *integerStrips) Do(lo, hi, w int) {
	const side = integerSide
	g, f, s, sc := &x.g, x.f, x.p.Set, x.p.Scratch(w)
	k, groups := g.K, g.K/x.f.group
	values, size := g.B.Kind.Values(), g.B.Kind.Size()
	// Sizes in floats: the integers of a column; in a panel of 16 columns, all integers, and a scale, or a low, for
	// each group.
	column := k / 4
	panel, scales := side*column, side*groups
	b, dw, low := sc.Floats(x.strip*column), sc.Floats(x.strip*groups), sc.Floats(x.strip*groups)
	rowQ, rowScale, rowLow := sc.Floats(panel), sc.Floats(scales), sc.Floats(scales)
	edge, room := sc.Floats(side*side), sc.Floats(2*side*side)
	for t := lo; t < hi; t++ {
		j := t * x.strip
		cols := min(x.strip, g.N-j)
		for q := 0; q < cols; q += side {
			n := min(side, cols-q)
			for i := range n {
				at := (g.B.Start + (j+q+i)*g.LDB) / values * size
				f.unpack(int8sOf(rowQ[i*column:(i+1)*column]), rowScale[i*groups:][:groups], rowLow[i*groups:][:groups],
					g.B.Bytes[at:][:k/values*size])
			}
			for i := n; i < side; i++ {
				clear(rowQ[i*column : (i+1)*column])
				clear(rowScale[i*groups:][:groups])
				clear(rowLow[i*groups:][:groups])
			}
			columnsOf(s, b[q/side*panel:][:panel], rowQ, column)
			columnsOf(s, dw[q/side*scales:][:scales], rowScale, groups)
			if f.lows {
				columnsOf(s, low[q/side*scales:][:scales], rowLow, groups)
			}
		}
		for k0 := 0; k0 < k; k0 += integerDepth {
			depth := min(integerDepth, k-k0)
			from, count := k0/f.group, depth/f.group
			for m := 0; m < g.M; m += side {
				for q := 0; q < cols; q += side {
					rows, n := min(side, g.M-m), min(side, cols-q)
					a, at := m*k+k0*side, (m/side*groups+from)*side
					r := groupProduct{rows: rows, groups: count, group: f.group, resume: k0 > 0, room: room,
						a: x.x.tiles[a:][:side*depth], dx: x.x.dx[at:][:count*side],
						xs: x.x.xs[at:][:count*side],
						b:  int8sOf(b[q/side*panel+k0*side/4:][:depth*side/4]),
						dw: dw[q/side*scales+from*side:][:count*side]}
					if f.lows {
						r.low = low[q/side*scales+from*side:][:count*side]
					}
					c := g.C[m*g.LDC+j+q:]
					if rows == side && n == side {
						r.c, r.ldc = c, g.LDC
						f.multiply(r)
						continue
					}
					r.c, r.ldc = edge, side
					if r.resume {
						for i := range rows {
							copy(edge[i*side:], c[i*g.LDC:][:n])
						}
					}
					f.multiply(r)
					for i := range rows {
						copy(c[i*g.LDC:][:n], edge[i*side:])
					}
				}
			}
		}
	}
}

// columnsOf transposes 16 rows of n floats: dst[j*16+i] = src[i*n+j].
func columnsOf(s *isa.Set, dst, src []float32, n int) { columnsInto(s, dst, integerSide, src, n) }

// columnsInto is columnsOf for rows of dst that start ld floats apart.
func columnsInto(s *isa.Set, dst []float32, ld int, src []float32, n int) {
	whole := n / s.Lanes * s.Lanes
	for h := 0; h < integerSide; h += s.Lanes {
		if whole > 0 {
			vec.On(s).Transpose(dst[h:], ld, src[h*n:], n, s.Lanes, whole)
		}
	}
	for j := whole; j < n; j++ {
		for i := range integerSide {
			dst[j*ld+i] = src[i*n+j]
		}
	}
}

// roundRowOf adapts a routine that rounds groups of 32 activations.
func roundRowOf(f func(q *int8, scale, sums, x *float32, groups int)) func(q []int8, scale, sums, x []float32) {
	return func(q []int8, scale, sums, x []float32) {
		n := len(x) / 32
		if n == 0 {
			return
		}
		_, _, _ = q[32*n-1], scale[n-1], sums[2*n-1]
		f(&q[0], &scale[0], &sums[0], &x[0], n)
	}
}

// check panics if an operand is too short.
func (r *groupProduct) check() {
	n := r.groups * integerSide
	most := n * r.group
	if r.lda != 0 {
		most = (integerSide-1)*r.lda + (r.groups-1)*r.stepA + r.group
	}
	_, _, _, _, _ = r.a[most-1], r.b[n*r.group-1], r.dx[n-1], r.dw[n-1], r.c[(integerSide-1)*r.ldc+integerSide-1]
	if r.low != nil {
		_, _ = r.low[n-1], r.xs[n-1]
	}
}

func (r *groupProduct) resumes() int {
	if r.resume {
		return 1
	}
	return 0
}
