package product

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/quant"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// byteDot multiplies packed weights, as they are stored, by one row of activations that are rounded to 8 bits.
type byteDot struct {
	// excess is added to every integer q of a block where dot reads unsigned bytes, q + excess. That leaves the sum of
	// products too large by excess times the sum of the activations, for which roundedRow.excess makes up. It is 0 if
	// dot does not read roundedRow.excess.
	excess int32
	// dot sets dst[r] to the dot product of x and row r of w. Rows start stride bytes apart.
	dot func(dst []float32, w []byte, stride int, x *roundedRow)
	// together, if not nil, does the same for 2 to 4 rows of activations, of which x is the first, and an even number
	// of rows of w: so many of rows ldc apart in dst. The bits are those of dot.
	together func(dst []float32, ldc, columns int, w []byte, stride int, x *roundedRow, rows int)
}

// roundedRow is a row of activations, rounded to bytes: groups of 32 values q*scale.
type roundedRow struct {
	q      []int8
	scale  []float32 // one for 32 activations
	sums   []float32 // sums of 32 activations, scale*sum(q)
	halves []float32 // sums of 16 activations
	// -byteDot.excess times the sum of 4 integers: the 32-bit sums of products start with these. Arbitrary if that is 0
	excess []int32

	// q and scale of this row and those after it, for byteDot.together: [k/32][rows][32] and [k/32][rows]. Only the
	// first row of each part has them.
	allQ     []int8
	allScale []float32
}

// mostTogether is the largest number of rows for byteDot.together.
const mostTogether = 4

// eachPart divides m rows, at least 2, into parts for byteDot.together.
func eachPart(m int, f func(first, rows int)) {
	parts := (m + mostTogether - 1) / mostTogether
	for i := range parts {
		f(i*m/parts, (i+1)*m/parts-i*m/parts)
	}
}

// mostDotRows is the largest integerFormat.dots.
const mostDotRows = 8

// roundedRowBytes returns the memory of so many rounded rows.
func roundedRowBytes(rows, k int) int64 {
	return int64(rows) * (int64(3*k) + pool.SizeOf[float32](3*k/integerSide+k/quant.Group))
}

// dotsRounded reports whether a product multiplies rows of rounded activations by packed weights as they are stored.
func (g *GemmArgs) dotsRounded(s *isa.Set) bool {
	most := On(s).integerFormats[g.B.Kind].dots
	return g.M <= most && g.K > 0 && g.Precision == Float32 && On(s).dotBytes[g.B.Kind].dot != nil &&
		!g.multipliesFew(s)
}

// multiplyRows computes a product that dotsRounded accepts.
func (x *rounding) multiplyRows(p *pool.Pool, g *GemmArgs) {
	x.roundRows(p, g)
	pool.Split(p, g.N, g.dotStrip(), byteStrips{p, *g, x.rows})
}

// roundRows rounds the rows of g.A for the byteDot of the weights' type.
func (x *rounding) roundRows(p *pool.Pool, g *GemmArgs) {
	s, k := p.Set, g.K
	if x.rows == nil {
		x.rows = make([]roundedRow, mostDotRows)
	}
	excess := On(s).dotBytes[g.B.Kind].excess
	for m := range g.M {
		r := &x.rows[m]
		r.q, r.scale, r.sums, r.excess, r.halves = pool.Sized(r.q, k), pool.Sized(r.scale, k/quant.Group),
			pool.Sized(r.sums, k/quant.Group), pool.Sized(r.excess, k/4), pool.Sized(r.halves, k/16)
		On(s).roundRow(r.q, r.scale, r.halves, g.A[m*g.LDA:][:k])
		for i, d := range r.scale {
			h := r.halves[2*i : 2*i+2]
			r.sums[i] = d * (h[0] + h[1])
			h[0], h[1] = d*h[0], d*h[1]
		}
		for i := 0; excess != 0 && i < len(r.excess); i++ {
			q := (*[4]int8)(r.q[4*i:])
			r.excess[i] = -excess * (int32(q[0]) + int32(q[1]) + int32(q[2]) + int32(q[3]))
		}
	}
	if g.M > 1 && On(s).dotBytes[dtype.Q8_0].together != nil { // products of other types may share the rows
		gather(x.rows, g.M)
	}
}

// gather sets allQ and allScale of m rows.
func gather(rows []roundedRow, m int) {
	eachPart(m, func(first, n int) {
		x, k := &rows[first], len(rows[first].q)
		x.allQ, x.allScale = pool.Sized(x.allQ, n*k), pool.Sized(x.allScale, n*k/quant.Group)
		for i := range n {
			for b, d := range rows[first+i].scale {
				x.allScale[b*n+i] = d
				copy(x.allQ[(b*n+i)*quant.Group:], rows[first+i].q[b*quant.Group:][:quant.Group])
			}
		}
	})
}

type byteStrips struct {
	p    *pool.Pool
	g    GemmArgs
	rows []roundedRow
}

func (x *byteStrips) Do(lo, hi, _ int) {
	g, dot := &x.g, On(x.p.Set).dotBytes[x.g.B.Kind]
	if dot.together == nil || g.M == 1 {
		g.eachStrip(lo, hi, func(m int, dst []float32, w []byte, stride int) { dot.dot(dst, w, stride, &x.rows[m]) })
		return
	}
	for strip := g.dotStrip(); lo < hi; lo += strip {
		n := min(strip, hi-lo)
		even := n &^ 1
		w, stride := g.columnsAt(lo, n)
		eachPart(g.M, func(first, rows int) {
			if even > 0 {
				dot.together(g.C[first*g.LDC+lo:], g.LDC, even, w, stride, &x.rows[first], rows)
			}
		})
		for m := 0; m < g.M && even < n; m++ {
			dot.dot(g.C[m*g.LDC+lo+even:][:1], w[even*stride:], stride, &x.rows[m])
		}
	}
}
