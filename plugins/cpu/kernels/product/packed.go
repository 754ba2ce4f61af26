package product

import (
	"math"
	"unsafe"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/quant"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// packedDotRows is the largest number of rows of activations that are multiplied one by one by weights as they are
// stored. For more rows, products unpack the weights first.
const packedDotRows = 4

// dotsPacked reports whether a product multiplies rows by packed weights as they are stored.
func (g *GemmArgs) dotsPacked(s *isa.Set, batch int) bool {
	return g.M <= packedDotRows && batch == 1 && stored.On(s).Packed[g.B.Kind].Dot != nil && g.K > 0 && g.LDB == g.K &&
		g.TransB &&
		!g.TransA && g.Precision == Float32 &&
		(g.B.Start|g.K)%g.B.Kind.Values() == 0 && g.Bias == nil && g.Act == elementwise.Identity && g.Residual == nil
}

// packedLimit bounds the magnitude of the activations that routines for packed weights take. They compute the sum of
// x*(d*q - m) as d*sum(x*q) - m*sum(x). Below the limit neither sum overflows. (Pool.packedLimit is something else: a
// limit on memory.)
const packedLimit = 0x1p100

// gemvPacked computes a product that dotsPacked accepts. It returns false, and leaves C as it is, if packedStripsOf
// does.
func gemvPacked(p *pool.Pool, g *GemmArgs) bool {
	p.Shared.Reset()
	strips, ok := packedStripsOf(p, g)
	if ok {
		pool.Split(p, g.N, g.dotStrip(), strips)
	}
	return ok
}

// packedStripsOf prepares the activations of a product that dotsPacked accepts, in the pool's shared memory. It returns
// false if groupSums or arrange returns false for a row of A.
func packedStripsOf(p *pool.Pool, g *GemmArgs) (strips packedStrips, ok bool) {
	groups := g.K / 32
	sums := p.Shared.Floats(g.M * groups)
	for m := range g.M {
		if !groupSums(sums[m*groups:][:groups], g.A[m*g.LDA:][:g.K]) {
			return strips, false
		}
	}
	strips = packedStrips{p, *g, sums}
	if arrange := stored.On(p.Set).Packed[g.B.Kind].Arrange; arrange != nil {
		x := p.Shared.Floats(g.M * g.K)
		for m := range g.M {
			if !arrange(x[m*g.K:][:g.K], g.A[m*g.LDA:][:g.K]) {
				return strips, false
			}
		}
		strips.g.A, strips.g.LDA = x, g.K
	}
	return strips, true
}

// groupSums sets sums[i] to the sum of x[32*i : 32*i+32]. It returns false if an element is NaN or its magnitude is
// packedLimit/32 or more: 32 such elements could add up to packedLimit.
func groupSums(sums, x []float32) bool {
	var most uint32
	for i := range sums {
		v := (*[32]float32)(x[32*i:])
		var s0, s1, s2, s3 float32
		for j := 0; j < 32; j += 4 {
			a, b, c, d := v[j], v[j+1], v[j+2], v[j+3]
			s0, s1, s2, s3 = s0+a, s1+b, s2+c, s3+d
			const magnitude = 1<<31 - 1
			most = max(most, math.Float32bits(a)&magnitude, math.Float32bits(b)&magnitude,
				math.Float32bits(c)&magnitude, math.Float32bits(d)&magnitude)
		}
		sums[i] = s0 + s1 + (s2 + s3)
	}
	return most < math.Float32bits(packedLimit/32)
}

type packedStrips struct {
	p    *pool.Pool
	g    GemmArgs
	sums []float32 // [M, K/32], from groupSums
}

func (x *packedStrips) Do(lo, hi, _ int) {
	g, groups := &x.g, x.g.K/32
	dot := stored.On(x.p.Set).Packed[g.B.Kind].Dot
	g.eachStrip(lo, hi, func(m int, dst []float32, w []byte, stride int) {
		dot(dst, w, stride, g.A[m*g.LDA:][:g.K], x.sums[m*groups:][:groups])
	})
}

// eachStrip cuts columns [lo, hi) of C into strips, and calls dot for every row m of A in each strip. dst is row m of
// the strip. w holds the rows of packed weights for its columns, stride bytes apart. The weights of a strip are read
// from memory for the first row of A, and from a cache for the others. A single row of A needs only one strip, which is
// read in the longest streams.
func (g *GemmArgs) eachStrip(lo, hi int, dot func(m int, dst []float32, w []byte, stride int)) {
	strip := g.rowStrip()
	if g.M == 1 {
		strip = hi - lo
	}
	for ; lo < hi; lo += strip {
		n := min(strip, hi-lo)
		w, stride := g.columnsAt(lo, n)
		for m := range g.M {
			dot(m, g.C[m*g.LDC+lo:][:n], w, stride)
		}
	}
}

// columnsAt returns the rows of packed weights for n columns of C, and the bytes from one to the next.
func (g *GemmArgs) columnsAt(lo, n int) (w []byte, stride int) {
	values, size := g.B.Kind.Values(), g.B.Kind.Size()
	stride = g.LDB / values * size
	rows := g.B.Bytes[g.B.Start/values*size:]
	return rows[lo*stride : (lo+n-1)*stride+g.K/values*size], stride
}

// rounding is the state of GemmRounded. It keeps its memory from call to call.
type rounding struct {
	x     []float32 // for products of floats: the rounded activations
	q     []int8
	scale []float32

	tiles  []int8 // for products of integers, as in groupProduct: a, then the numbers of each group
	dx, xs []float32

	rows []roundedRow // for products of at most mostDotRows rows
}

// PackedScratch returns the memory that GemmRounded needs for at most m rows of k values and weights of type d, in
// addition to what Gemm needs.
func PackedScratch(p *pool.Pool, d dtype.DType, m, k int) pool.Size {
	rows, groups := min(m+integerSide, integerBatch), k/integerSide
	floats := pool.SizeOf[float32](m*k) + int64(m*k)*5/4
	integers := int64(rows*k) + pool.SizeOf[float32](2*rows*groups) + roundedRowBytes(mostDotRows, k)
	f := On(p.Set).integerFormats[d]
	if f.eights.multiply != nil {
		r := f.eightsScratch(m, k)
		r.Other = max(r.Other, floats) + roundedRowBytes(mostDotRows, k)
		return r
	}
	worker := f.scratch(k, groups)
	if f.few[1] > 0 {
		worker = max(worker, f.fewScratch(m))
	}
	return pool.Size{Other: max(floats, integers), Worker: worker}
}

// GemmRounded computes a product of packed weights with activations that it rounds to 8 bits (see
// quant.RoundActivations).
func GemmRounded(p *pool.Pool, g *GemmArgs) { pool.Keep[rounding](p).multiply(p, g) }

func (x *rounding) multiply(p *pool.Pool, g *GemmArgs) {
	switch {
	case g.multipliesEights(p.Set):
		x.multiplyEights(p, g)
		return
	case g.multipliesFew(p.Set):
		x.multiplyFew(p, g)
		return
	case g.dotsRounded(p.Set):
		x.multiplyRows(p, g)
		return
	case g.Precision == Float32 && g.K > 0 && multipliesPacked(p.Set, g.B.Kind):
		x.multiplyIntegers(p, g)
		return
	}
	rounded := *g
	x.round(p, &rounded)
	Gemm(p, &rounded)
}

// round replaces g.A, which has M rows of K values, by the rounded activations as float32.
func (x *rounding) round(p *pool.Pool, g *GemmArgs) {
	groups := (g.K + quant.Group - 1) / quant.Group
	x.x, x.q, x.scale = pool.Sized(x.x, g.M*g.K), pool.Sized(x.q, g.M*g.K), pool.Sized(x.scale, g.M*groups)
	from := g.A
	g.A = x.x
	if g.K == 0 {
		return
	}
	pool.Split(p, g.M, pool.RowGrain(g.K), roundingRows{p.Set, x, from, g.K, groups})
}

type roundingRows struct {
	s         *isa.Set
	x         *rounding
	from      []float32
	k, groups int
}

func (r *roundingRows) Do(lo, hi, _ int) {
	for m := lo; m < hi; m++ {
		to, q, scale := r.x.x[m*r.k:(m+1)*r.k], r.x.q[m*r.k:(m+1)*r.k], r.x.scale[m*r.groups:(m+1)*r.groups]
		if from := r.from[m*r.k : (m+1)*r.k]; On(r.s).roundRow != nil && r.k%quant.Group == 0 {
			// its sums are not needed, so they go to memory that is overwritten next
			On(r.s).roundRow(q, scale, to[:r.k/16], from)
		} else {
			quant.RoundActivations(q, scale, from)
		}
		elementwise.Widen(r.s, to, dtype.I8, unsafe.Slice((*uint8)(unsafe.Pointer(&q[0])), len(q)))
		for i, d := range scale {
			group := to[i*quant.Group : min((i+1)*quant.Group, r.k)]
			for j := range group {
				group[j] *= d
			}
		}
	}
}

// DecodeRows widens rows of k values of packed weights: dst is [rows, k].
func DecodeRows(p *pool.Pool, dst []float32, w stored.Values, rows, k int) {
	if rows*k > 0 {
		pool.Split(p, rows, pool.RowGrain(k), decodingRows{p.Set, dst, w, k})
	}
}

type decodingRows struct {
	s   *isa.Set
	dst []float32
	w   stored.Values
	k   int
}

func (d *decodingRows) Do(lo, hi, _ int) { d.w.Decode(d.s, d.dst[lo*d.k:hi*d.k], lo*d.k) }
