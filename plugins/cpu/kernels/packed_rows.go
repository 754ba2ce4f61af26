package kernels

import "github.com/rlx-go/rlx/core/quant"

// byteDot multiplies packed weights, as they are stored, and one row of bytes.
type byteDot struct {
	excess int32 // what the integers that it reads from a block are too large by
	// dot is dst[r] = x·w[r], rows being stride bytes apart.
	dot func(dst []float32, w []byte, stride int, x *roundedRow)
}

// roundedRow is a row of activations, rounded to bytes.
type roundedRow struct {
	q      []int8
	scale  []float32 // of each 32
	sums   []float32 // of each 32, scaled
	halves []float32 // of each 16, scaled
	excess []int32   // sums of each 4 times -byteDot.excess
}

// multiplyRows is the product g of few rows with weights of a type that has a byteDot.
func (x *PackedProduct) multiplyRows(p *Pool, g *GemmArgs) {
	s, k := p.isa, g.K
	if x.rows == nil {
		x.rows = make([]roundedRow, packedDotRows)
	}
	excess := s.dotBytes[g.B.kind].excess
	for m := range g.M {
		r := &x.rows[m]
		r.q, r.scale, r.sums, r.excess, r.halves = grown(r.q, k), grown(r.scale, k/quant.Group), grown(r.sums, k/quant.Group), grown(r.excess, k/4), grown(r.halves, k/16)
		s.roundRow(r.q, r.scale, r.halves, g.A[m*g.LDA:][:k])
		for i, d := range r.scale {
			h := r.halves[2*i : 2*i+2]
			r.sums[i] = d * (h[0] + h[1])
			h[0], h[1] = d*h[0], d*h[1]
		}
		if excess != 0 {
			for i := range r.excess {
				q := (*[4]int8)(r.q[4*i:])
				r.excess[i] = -excess * (int32(q[0]) + int32(q[1]) + int32(q[2]) + int32(q[3]))
			}
		} else {
			clear(r.excess)
		}
	}
	split(p, g.N, gemvStrip, byteStrips{p, *g, x.rows})
}

type byteStrips struct {
	p    *Pool
	g    GemmArgs
	rows []roundedRow
}

func (x *byteStrips) do(lo, hi, _ int) {
	dot := x.p.isa.dotBytes[x.g.B.kind].dot
	x.g.eachStrip(lo, hi, func(m int, dst []float32, w []byte, stride int) { dot(dst, w, stride, &x.rows[m]) })
}
