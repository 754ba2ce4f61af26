package attention

import (
	"math"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// Two parts of grid attention that attention has not: decomposed relative positions, and padding keys, which are all
// equal.

// table holds the relative positions along one axis: for each of the n positions of a query a matrix [Dim, n],
// multiplied by log2(e) and packed in panels.
type table struct {
	n      int
	spans  []span // panels of the n positions of a key
	width  int    // padded(spans)
	packed []float32
}

type relative struct{ h, w table }

// pack packs both tables in memory that the workers share.
func (r *relative) pack(p *pool.Pool, g *GridArgs, wh, ww int) {
	if g.RelH == nil {
		return
	}
	for i, t := range []*table{&r.h, &r.w} {
		rel := g.RelH
		t.n = wh
		if i == 1 {
			rel, t.n = g.RelW, ww
		}
		t.spans = appendSpans(p.Set, t.spans[:0], product.Plain, t.n)
		t.width = padded(t.spans)
		t.packed = p.Shared.Floats(t.n * g.Dim * t.width)
		pool.Split(p, t.n, 1+pool.Grain/(t.n*g.Dim), tablePacking{t, p.Set, rel, g.Dim})
	}
}

// tablePacking packs a table.
type tablePacking struct {
	*table
	s   *isa.Set
	rel []float32
	d   int
}

func (t *tablePacking) Do(lo, hi, _ int) {
	for at := lo; at < hi; at++ {
		dst := t.packed[at*t.d*t.width:][:t.d*t.width]
		for _, c := range t.spans {
			product.PackColsTrans(t.s, c.NR, dst[c.at*t.d:], stored.F32(t.rel[(at*t.n+c.at)*t.d:]), t.d, c.n, t.d, nil)
		}
		for j := range dst {
			dst[j] *= log2e
		}
	}
}

// positions computes the terms q·RelH[y, ky] and q·RelW[x, kx] of every query, as matrix products: all queries in row y
// of the window share the matrix RelH[y], and those in column x the matrix RelW[x].
func (t *gridTask) positions(s *isa.Set, sc *pool.Scratch) {
	if t.g.RelH == nil {
		return
	}
	cols, n := padded(t.spans), t.q1-t.q0
	t.termH, t.termW, t.relWScale = t.rel.h.width, t.rel.w.width, 1
	t.relH, t.relW = sc.Floats(cols*t.termH), sc.Floats(cols*t.termW)
	byQuery := sc.Floats(cols * max(t.rel.h.width, t.rel.w.width))
	a := sc.Floats(product.On(s).MR*t.g.Dim + product.Spill)
	e3 := 3 * t.g.Heads * t.g.Dim
	clear(byQuery)
	for q := 0; q < n; {
		run := min(n-q, t.vw-(t.q0+q)%t.vw)
		t.elements(s, a, &t.rel.h, (t.q0+q)/t.vw, byQuery, q, run, 1, e3)
		q += run
	}
	t.transposeTerms(s, t.relH, byQuery, t.rel.h.width)
	clear(byQuery)
	for q := 0; q < min(n, t.vw); q++ {
		t.elements(s, a, &t.rel.w, (t.q0+q)%t.vw, byQuery, q, (n-q+t.vw-1)/t.vw, t.vw, t.g.GW*e3)
	}
	t.transposeTerms(s, t.relW, byQuery, t.rel.w.width)
}

// product multiplies queries q, q+step, ..., count of them, by the matrix for position at. They are ld floats apart in
// QKV.
func (t *gridTask) elements(s *isa.Set, a []float32, tab *table, at int, byQuery []float32, q, count, step, ld int) {
	mr := product.On(s).MR
	d := t.g.Dim
	src := t.at(t.q0 + q)[t.head*d:]
	for r := 0; r < count; r += mr {
		h := min(mr, count-r)
		product.PackRows(s, a, src[r*ld:], ld, h, d)
		for _, c := range tab.spans {
			c.Gemm(h, d, a, tab.packed[(at*tab.width+c.at)*d:], byQuery[(q+r*step)*tab.width+c.at:], step*tab.width,
				false, nil, nil, 0)
		}
	}
}

// transposeTerms transposes rows of terms, one per query, into panels with a column per query.
func (t *gridTask) transposeTerms(s *isa.Set, dst, byQuery []float32, width int) {
	for _, p := range t.spans {
		for h := 0; h < p.NR; h += s.Lanes {
			vec.On(s).Transpose(dst[p.at*width+h:], p.NR, byQuery[(p.at+h)*width:], width, s.Lanes, width)
		}
	}
}

// padding starts o, m and l with the padding keys. All have the same key and value, so their scores differ only in the
// position terms. The sum of weights over a rectangle of padding keys is therefore a sum over its rows times a sum over
// its columns.
func (t *gridTask) padding(sc *pool.Scratch) {
	d, e := t.g.Dim, t.g.Heads*t.g.Dim
	pad := t.g.Pad
	if pad == nil {
		pad = sc.Floats(3 * e)
		clear(pad)
	}
	key, value := pad[e+t.head*d:][:d], pad[2*e+t.head*d:][:d]
	packedKey, panel := sc.Floats(d+product.Spill), sc.Floats(d+2*product.Spill)
	copy(packedKey, panel[:copy(panel, key)])
	if t.way == product.Pairs || t.way == product.Tiled {
		product.Convert(t.s, product.Pairs, packedKey, panel, 1, d)
	} else {
		product.Convert(t.s, t.way, packedKey, packedKey, 1, d)
	}
	nr := product.On(t.s).NR
	dots, base := sc.Floats(nr), sc.Floats(nr)
	score, weight := sc.Floats(2*nr), sc.Floats(2*nr) // for two rectangles: right of the grid, and below it
	side := [2]axisSum{{max: sc.Floats(nr), sum: sc.Floats(nr)}, {max: sc.Floats(nr), sum: sc.Floats(nr)}}
	terms := sc.Floats(max(t.h, t.w) * nr)
	for _, p := range t.spans {
		if t.way == product.Pairs || t.way == product.Tiled {
			p.Pairs(1, product.Pairs.Depth(d), packedKey, t.q[p.at*t.depth:], dots, p.NR, false, nil, nil, 0)
		} else {
			p.Gemm(1, d, packedKey, t.q[p.at*d:], dots, p.NR, false, nil, nil, 0)
		}
		rects := 0
		for _, r := range [2][4]int{{0, t.vh, t.vw, t.w}, {t.vh, t.h, 0, t.w}} {
			if r[0] == r[1] || r[2] == r[3] {
				continue
			}
			side[0].over(p, base, terms, t.relH, t.termH, r[0], r[1], 1)
			side[1].over(p, base, terms, t.relW, t.termW, r[2], r[3], t.relWScale)
			for i := range p.NR {
				score[rects*p.NR+i] = dots[i]*t.g.Scale*log2e + side[0].max[i] + side[1].max[i]
				weight[rects*p.NR+i] = side[0].sum[i] * side[1].sum[i]
			}
			rects++
		}
		m, l := t.m[p.at:][:p.NR], t.l[p.at:][:p.NR]
		p.ScoreMax(score[:rects*p.NR], 1, m)
		p.ExpSum(score[:rects*p.NR], finite(base, m), t.junk)
		for i := range l {
			l[i] = score[i] * weight[i]
			if rects == 2 {
				l[i] += score[p.NR+i] * weight[p.NR+i]
			}
		}
		for r := 0; r < d; r += product.On(t.s).MR { // the outer product of the value and the weights
			p.Gemm(min(product.On(t.s).MR, d-r), 1, value[r:], l, t.o[p.at*t.rowsO+r*p.NR:], p.NR, false, nil, nil, 0)
		}
	}
	t.started = true
}

// axisSum holds, for each query of a panel, the largest of some position terms t, and the sum of 2^(t - max).
type axisSum struct{ max, sum []float32 }

func (a *axisSum) over(p span, base, scratch, terms []float32, width, lo, hi int, scale float32) {
	if terms == nil {
		for i := range p.NR {
			a.max[i], a.sum[i] = 0, float32(hi-lo)
		}
		return
	}
	rows := scratch[:copy(scratch, terms[p.at*width:][lo*p.NR:hi*p.NR])]
	for i := range p.NR {
		a.max[i] = float32(math.Inf(-1))
	}
	clear(a.sum)
	p.ScoreMax(rows, scale, a.max)
	p.ExpSum(rows, finite(base, a.max), a.sum)
}

// finite copies max to dst with 0 in place of -Inf. Then -Inf - max is -Inf and its power of two is 0,
// where -Inf - -Inf would be NaN.
func finite(dst, max []float32) []float32 {
	for i, x := range max {
		if x < -math.MaxFloat32 {
			x = 0
		}
		dst[i] = x
	}
	return dst
}
