package elementwise

import (
	"math"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// The operands of MulAddRows with which it multiplies or adds only. Adding -0 changes nothing, not even the sign of 0.
var (
	justOne  = [1]float32{1}
	justZero = [1]float32{float32(math.Copysign(0, -1))}
)

// MulAddRows is dst = x*by[r] + add[r] for rows r of n > 0 elements; dst may be x.
func MulAddRows(s *isa.Set, dst, x []float32, n int, by, add []float32) {
	rows := len(x) / n
	if f := On(s).mulAddRows; f != nil && rows > 0 {
		_, _, _ = dst[rows*n-1], by[rows-1], add[rows-1]
		f(&dst[0], &x[0], n, rows, &by[0], 1, &add[0], 1)
		return
	}
	for r := range rows {
		a, b, to := by[r], add[r], dst[r*n:][:n]
		for i, v := range x[r*n:][:n] {
			to[i] = float32(v*a) + b // rounded, so that no processor fuses the sum
		}
	}
}

// rowNumbers computes products and sums if operand k has a number for each row of the other, which is dense. Without
// it, each row would need a call, or a copy of its number for each element.
type rowNumbers struct {
	binaryVectors
	k  int
	op BinaryOp
}

func (x *rowNumbers) Do(lo, hi, worker int) {
	x.each(lo, hi, worker, func(dst []float32, lo, _ int) { x.from(dst, lo) })
}

// from computes elements from lo on. It divides them where the numbers are not evenly spaced: before and after the
// whole rows, and at the ends of the axis before the last.
func (x *rowNumbers) from(dst []float32, lo int) {
	g, src, numbers := &x.g, x.a, x.b
	if x.k == 0 {
		src, numbers = x.b, x.a
	}
	last := g.rank - 1
	row, rows, down := g.dims[last], g.dims[last-1], g.strides[x.k][last-1]
	for len(dst) > 0 {
		n, count, first, rest := min(row-lo%row, len(dst)), 1, lo/row%rows, lo/row/rows
		if n == row {
			count = min(rows-first, len(dst)/row)
		}
		at := first * down
		for i := last - 2; i >= 0; i-- {
			at += rest % g.dims[i] * g.strides[x.k][i]
			rest /= g.dims[i]
		}
		size := n * count
		to, from := dst[:size], src[lo:][:size]
		_ = numbers[at+(count-1)*down]
		if f := On(x.p.Set).mulAddRows; x.op == Mul {
			f(&to[0], &from[0], n, count, &numbers[at], down, &justZero[0], 0)
		} else {
			f(&to[0], &from[0], n, count, &justOne[0], 0, &numbers[at], down)
		}
		dst, lo = dst[size:], lo+size
	}
}
