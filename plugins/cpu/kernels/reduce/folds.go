package reduce

import (
	"math"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// foldRoutines are the routines of reductions, for at least one element.
type foldRoutines struct {
	Row [reduceCount]func(x *float32, n int) float64 // reduces n elements; nil for Sum and Mean, see Routines.sum
	// reduces rows of n elements, ld apart, column by column into acc
	rows [reduceCount]func(acc, x *float32, n, ld, rows int)
	// dst[i] = row i reduced, for rows that are ld apart; nil for Prod
	Each [reduceCount]func(dst, x *float32, n, ld, rows int)
	// dst[p*n+c] = x[p*step + i*down + j*n + c] reduced over i < high and j < wide, for p < pixels and c < n; nil for
	// Prod
	pixels [reduceCount]func(dst, x *float32, n, wide, high, down, step, pixels int)
}

// softmaxRoutines are the passes of softmax: over a row of n elements, or down n columns, with rows that are ld
// elements apart. n and rows are > 0; dst may be x.
type softmaxRoutines struct {
	ExpRow    func(dst, x *float32, n int, top float32) float32 // dst = e^(x-top); returns the sum
	ExpSumRow func(x *float32, n int, top float32) float32      // returns the sum only
	ScaleRow  func(x *float32, n int, by float32)
	ShiftRow  func(dst, x *float32, n int, a, b float32) // dst = (x-a)-b

	expRows      func(dst, x *float32, n, ld, rows int, top, sum *float32) // adds the results to sum
	expSumRows   func(x *float32, n, ld, rows int, top, sum *float32)
	scaleColumns func(x *float32, n, ld, rows int, by *float32)
	shiftColumns func(dst, x *float32, n, ld, rows int, a, b *float32)
}

// setFolds gives a set its routines of softmax, and of reductions by their names.
func (s *Routines) setFolds(row map[string]func(x *float32, n int) float64,
	rows map[string]func(acc, x *float32, n, ld, rows int),
	each map[string]func(dst, x *float32, n, ld, rows int),
	pixels map[string]func(dst, x *float32, n, wide, high, down, step, pixels int), softmax softmaxRoutines) *Routines {
	s.Folds = &foldRoutines{}
	for op, name := range reduceNames {
		if op == int(Mean) {
			name = Sum.String()
		}
		s.Folds.Row[op], s.Folds.rows[op], s.Folds.Each[op] = row[name], rows[name], each[name]
		s.Folds.pixels[op] = pixels[name]
	}
	s.Softmax = &softmax
	return s
}

// Row computes the softmax of one row, or its logarithm.
func (f *softmaxRoutines) Row(s *isa.Set, dst, x []float32, log bool) {
	top := float32(On(s).Folds.Row[Max](&x[0], len(x))) // NaN if x has one
	var sum float64
	for i := 0; i < len(x); i += Block {
		if n := min(Block, len(x)-i); log {
			sum += float64(f.ExpSumRow(&x[i], n, top))
		} else {
			sum += float64(f.ExpRow(&dst[i], &x[i], n, top))
		}
	}
	if log {
		f.ShiftRow(&dst[0], &x[0], len(x), top, float32(math.Log(sum)))
	} else {
		f.ScaleRow(&dst[0], len(x), float32(1/sum))
	}
}

// Columns computes the softmax of len(top) adjacent columns of n elements, with rows ld elements apart. top, part, by
// and sum are buffers of equal length.
func (f *softmaxRoutines) Columns(s *isa.Set, dst, x []float32, n, ld int, log bool, top, part, by []float32,
	sum []float64) {
	w := len(top)
	_, _, _, _ = dst[(n-1)*ld+w-1], x[(n-1)*ld+w-1], part[w-1], by[w-1]
	copy(top, x)
	if n > 1 {
		On(s).Folds.rows[Max](&top[0], &x[ld], w, ld, n-1)
	}
	clear(sum)
	for j := 0; j < n; j += Rows {
		clear(part)
		if rows := min(Rows, n-j); log {
			f.expSumRows(&x[j*ld], w, ld, rows, &top[0], &part[0])
		} else {
			f.expRows(&dst[j*ld], &x[j*ld], w, ld, rows, &top[0], &part[0])
		}
		foldInto(Sum, sum, part)
	}
	for i, v := range sum {
		by[i] = float32(1 / v)
		if log {
			by[i] = float32(math.Log(v))
		}
	}
	if log {
		f.shiftColumns(&dst[0], &x[0], w, ld, n, &top[0], &by[0])
	} else {
		f.scaleColumns(&dst[0], w, ld, n, &by[0])
	}
}
