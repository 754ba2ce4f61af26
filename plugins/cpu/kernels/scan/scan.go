// Package scan computes running sums, products and maxima, and recurrences.
package scan

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// Op is the operation of a scan.
type Op uint8

// The scans. NaN propagates through all of them. They start from 0, 1, and -Inf or the least integer.
const (
	CumSum Op = iota
	CumProd
	CumMax
	scanCount
)

// Run computes y_i = x_0 op ... op x_i along the middle axis of [outer, n, inner]. If exclusive is set, it leaves out
// x_i; if reverse is set, it goes from the last element to the first. Floats are folded in float64; integers wrap.
func Run[T elementwise.Number](p *pool.Pool, op Op, dst, src []T, outer, n, inner int, exclusive, reverse bool) {
	if elementwise.IsFloat[T]() {
		scan[T, float64](p, op, dst, src, outer, n, inner, exclusive, reverse)
	} else {
		scan[T, int64](p, op, dst, src, outer, n, inner, exclusive, reverse)
	}
}

// scan is Scan with accumulators of type A.
func scan[T, A elementwise.Number](p *pool.Pool, op Op, dst, src []T, outer, n, inner int, exclusive, reverse bool) {
	if len(src) < outer*n*inner || len(dst) < outer*n*inner {
		panic("BUG: Scan: a slice is short")
	}
	s := scanning[T, A]{op: op, dst: dst, src: src, n: n, inner: inner, step: inner, exclusive: exclusive}
	switch op {
	case CumProd:
		s.start = 1
	case CumMax:
		s.start = A(elementwise.Lowest[T]())
	}
	if x, ok := any(src).([]float32); ok {
		s.vector, s.x, s.y = scanOn(p.Set)[op], x, any(dst).([]float32)
	}
	if reverse {
		s.first, s.step = (n-1)*inner, -inner
	}
	switch {
	case outer*n*inner == 0:
	case inner > 1:
		pieces := (inner + scanWidth - 1) / scanWidth
		pool.Split(p, outer*pieces, 1+pool.Grain/max(1, n*min(inner, scanWidth)), scanColumns[T, A]{s, pieces})
	default:
		pool.Split(p, outer, 1+pool.Grain/n, s)
	}
}

// scanning scans rows. In a plain loop, each addition waits for the result of the previous one. So a row is divided
// into blocks: first the totals of scanChains blocks are computed, then these blocks are scanned together, each
// starting from the total of those before it. The blocks depend on the length of the row alone.
type scanning[T, A elementwise.Number] struct {
	op          Op
	dst, src    []T
	n, inner    int
	first, step int // offset of the first element of a line, and distance to the next
	start       A
	exclusive   bool

	// The routine for contiguous f32, which needs no blocks, and its operands. It is nil if the set lacks it.
	vector func(dst, src []float32, acc float64) float64
	y, x   []float32
}

const (
	scanWidth  = 64 // columns of a strip
	scanChains = 4  // blocks that are scanned together
	scanBlock  = 1024
	shortBlock = 16 // for shorter blocks, computing totals does not pay
)

func (s *scanning[T, A]) Do(lo, hi, _ int) {
	for row := lo; row < hi; row++ {
		at, acc, left, shift := row*s.n+s.first, s.start, s.n, 0
		if s.exclusive { // the same scan, stored one element later
			s.dst[at] = T(acc)
			left, shift = left-1, s.step
		}
		if s.vector != nil && s.step == 1 {
			s.vector(s.y[at+shift:][:left], s.x[at:][:left], float64(acc))
			continue
		}
		for left > 0 {
			length := min(scanBlock, left/scanChains)
			if length < shortBlock {
				s.run(at, shift, left, acc)
				break
			}
			var begin [scanChains]A
			for c := range begin {
				begin[c] = acc
				acc = s.join(acc, s.total(at+c*length*s.step, length))
			}
			s.runs(at, shift, length, begin)
			at += scanChains * length * s.step
			left -= scanChains * length
		}
	}
}

// join combines two accumulators.
func (s *scanning[T, A]) join(a, b A) A {
	switch s.op {
	case CumSum:
		return a + b
	case CumProd:
		return a * b
	}
	return elementwise.Larger(a, b)
}

// total folds n elements from src[at] on, with four accumulators.
func (s *scanning[T, A]) total(at, n int) A {
	if s.step == 1 {
		return s.totalOf(s.src[at : at+n])
	}
	step, src := s.step, s.src
	a := [4]A{s.start, s.start, s.start, s.start}
	i := 0
	if s.op != CumMax {
		for ; i+4 <= n; i += 4 {
			a[0], a[1] = s.join(a[0], A(src[at])), s.join(a[1], A(src[at+step]))
			a[2], a[3] = s.join(a[2], A(src[at+2*step])), s.join(a[3], A(src[at+3*step]))
			at += 4 * step
		}
	}
	acc := s.join(s.join(a[0], a[1]), s.join(a[2], a[3]))
	for ; i < n; i++ {
		acc = s.join(acc, A(src[at]))
		at += step
	}
	return acc
}

// totalOf is total for contiguous elements, with the same bits.
func (s *scanning[T, A]) totalOf(x []T) A {
	a0, a1, a2, a3 := s.start, s.start, s.start, s.start
	switch s.op {
	case CumSum:
		for ; len(x) >= 4; x = x[4:] {
			a0 += A(x[0])
			a1 += A(x[1])
			a2 += A(x[2])
			a3 += A(x[3])
		}
	case CumProd:
		for ; len(x) >= 4; x = x[4:] {
			a0 *= A(x[0])
			a1 *= A(x[1])
			a2 *= A(x[2])
			a3 *= A(x[3])
		}
	default: // four quarters, so that of equal elements the first is kept, and of NaN the last
		q := len(x) / 4
		x0, x1, x2, x3 := x[:q], x[q:][:q], x[2*q:][:q], x[3*q:][:q]
		for i, v := range x0 {
			a0, a1, a2, a3 = elementwise.Larger(a0, A(v)), elementwise.Larger(a1, A(x1[i])),
				elementwise.Larger(a2, A(x2[i])), elementwise.Larger(a3, A(x3[i]))
		}
		x = x[4*q:]
	}
	acc := s.join(s.join(a0, a1), s.join(a2, a3))
	for _, v := range x {
		acc = s.join(acc, A(v))
	}
	return acc
}

// run scans n elements from src[at] on. It stores the results from dst[at+shift] on.
func (s *scanning[T, A]) run(at, shift, n int, acc A) {
	for range n {
		acc = s.join(acc, A(s.src[at]))
		s.dst[at+shift] = T(acc)
		at += s.step
	}
}

// runs scans scanChains consecutive blocks of n elements from src[at] on, starting from acc.
func (s *scanning[T, A]) runs(at, shift, n int, acc [scanChains]A) {
	step, src, dst := s.step, s.src, s.dst
	if step == 1 {
		s.runsOf(src[at:at+4*n], dst[at+shift:][:4*n], n, acc)
		return
	}
	p0, p1, p2, p3 := at, at+n*step, at+2*n*step, at+3*n*step
	a0, a1, a2, a3 := acc[0], acc[1], acc[2], acc[3]
	switch s.op {
	case CumSum:
		for range n {
			a0 += A(src[p0])
			a1 += A(src[p1])
			a2 += A(src[p2])
			a3 += A(src[p3])
			dst[p0+shift], dst[p1+shift], dst[p2+shift], dst[p3+shift] = T(a0), T(a1), T(a2), T(a3)
			p0, p1, p2, p3 = p0+step, p1+step, p2+step, p3+step
		}
	case CumProd:
		for range n {
			a0 *= A(src[p0])
			a1 *= A(src[p1])
			a2 *= A(src[p2])
			a3 *= A(src[p3])
			dst[p0+shift], dst[p1+shift], dst[p2+shift], dst[p3+shift] = T(a0), T(a1), T(a2), T(a3)
			p0, p1, p2, p3 = p0+step, p1+step, p2+step, p3+step
		}
	default:
		for range n {
			a0, a1, a2, a3 = elementwise.Larger(a0, A(src[p0])), elementwise.Larger(a1, A(src[p1])),
				elementwise.Larger(a2, A(src[p2])),
				elementwise.Larger(a3, A(src[p3]))
			dst[p0+shift], dst[p1+shift], dst[p2+shift], dst[p3+shift] = T(a0), T(a1), T(a2), T(a3)
			p0, p1, p2, p3 = p0+step, p1+step, p2+step, p3+step
		}
	}
}

// runsOf is runs for contiguous elements. The blocks are slices of the same length, so the compiler can drop bounds
// checks.
func (s *scanning[T, A]) runsOf(x, y []T, n int, acc [scanChains]A) {
	x0, x1, x2, x3 := x[:n], x[n:][:n], x[2*n:][:n], x[3*n:][:n]
	y0, y1, y2, y3 := y[:n], y[n:][:n], y[2*n:][:n], y[3*n:][:n]
	a0, a1, a2, a3 := acc[0], acc[1], acc[2], acc[3]
	switch s.op {
	case CumSum:
		for i, v := range x0 {
			a0 += A(v)
			a1 += A(x1[i])
			a2 += A(x2[i])
			a3 += A(x3[i])
			y0[i], y1[i], y2[i], y3[i] = T(a0), T(a1), T(a2), T(a3)
		}
	case CumProd:
		for i, v := range x0 {
			a0 *= A(v)
			a1 *= A(x1[i])
			a2 *= A(x2[i])
			a3 *= A(x3[i])
			y0[i], y1[i], y2[i], y3[i] = T(a0), T(a1), T(a2), T(a3)
		}
	default:
		for i, v := range x0 {
			a0, a1, a2, a3 = elementwise.Larger(a0, A(v)), elementwise.Larger(a1, A(x1[i])),
				elementwise.Larger(a2, A(x2[i])), elementwise.Larger(a3, A(x3[i]))
			y0[i], y1[i], y2[i], y3[i] = T(a0), T(a1), T(a2), T(a3)
		}
	}
}

// scanColumns scans down strips of columns.
type scanColumns[T, A elementwise.Number] struct {
	scanning[T, A]
	pieces int
}

func (s *scanColumns[T, A]) Do(lo, hi, _ int) {
	var acc [scanWidth]A
	for t := lo; t < hi; t++ {
		c := t % s.pieces * scanWidth
		at := t/s.pieces*s.n*s.inner + s.first + c
		a := acc[:min(scanWidth, s.inner-c)]
		for i := range a {
			a[i] = s.start
		}
		left, shift := s.n, 0
		if s.exclusive {
			for i, v := range a {
				s.dst[at+i] = T(v)
			}
			left, shift = left-1, s.step
		}
		for range left {
			s.advance(s.dst[at+shift:], s.src[at:at+len(a)], a)
			at += s.step
		}
	}
}

// advance folds a row x into the accumulators a, one per column, and stores them in y.
func (s *scanColumns[T, A]) advance(y, x []T, a []A) {
	x, y = x[:len(a)], y[:len(a)]
	switch s.op {
	case CumSum:
		for i, v := range x {
			a[i] += A(v)
			y[i] = T(a[i])
		}
	case CumProd:
		for i, v := range x {
			a[i] *= A(v)
			y[i] = T(a[i])
		}
	default:
		for i, v := range x {
			a[i] = elementwise.Larger(a[i], A(v))
			y[i] = T(a[i])
		}
	}
}
