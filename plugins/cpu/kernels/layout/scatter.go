package layout

import (
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// ScatterAdd sets dst [rows, inner] to zeros and adds row i of src [len(index), inner] to row index[i] of dst, for
// ascending i. An index outside [0, rows) is an error; dst is then undefined. Threads share the rows of dst, so that
// sums are in the same order for any number of threads.
func ScatterAdd[T elementwise.Number, I Index](p *pool.Pool, dst, src []T, rows, inner int, index []I) error {
	if len(dst) < rows*inner || len(src) < len(index)*inner {
		panic("BUG: ScatterAdd: a slice is short")
	}
	for i, x := range index {
		if y := float64(x); !(y > -1 && y < float64(rows)) {
			return diag.New(code.Index, "", "index %v at position %d is out of range 0 to %d", x, i, rows-1)
		}
	}
	each := inner * (1 + len(index)/max(rows, 1)) // elements that a row of dst adds up, on average
	pool.Split(p, rows, 1+pool.Grain/max(1, each), scatter[T, I]{elementwise.On(p.Set).Binary[elementwise.Add], dst,
		src, inner, index})
	return nil
}

type scatter[T elementwise.Number, I Index] struct {
	add      func(dst, a, b []float32)
	dst, src []T
	inner    int
	index    []I
}

func (s *scatter[T, I]) Do(lo, hi, _ int) {
	clear(s.dst[lo*s.inner : hi*s.inner])
	for i, x := range s.index {
		row := int(x)
		if row < lo || row >= hi {
			continue
		}
		src := s.src[i*s.inner : (i+1)*s.inner]
		dst := s.dst[row*s.inner:][:len(src)]
		if d, ok := any(dst).([]float32); ok {
			s.add(d, d, any(src).([]float32))
			continue
		}
		for k, v := range src {
			dst[k] += v
		}
	}
}
