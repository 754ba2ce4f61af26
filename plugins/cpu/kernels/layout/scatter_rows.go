package layout

import (
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// Scatter copies x [rows, inner] to dst and then, for ascending i, combines row i of src [len(index), inner] with row
// index[i] of dst by the function, or replaces it if combine is nil. dst may be x. An index outside [0, rows) is an
// error; dst is then undefined. Threads share the columns, so that updates of a row are in the same order for any
// number of threads.
func Scatter[T elementwise.Number, I Index](p *pool.Pool, dst, x, src []T, rows, inner int, index []I,
	combine func(x, u T) T) error {
	if len(dst) < rows*inner || len(x) < rows*inner || len(src) < len(index)*inner {
		panic("BUG: Scatter: a slice is short")
	}
	for i, at := range index {
		if y := float64(at); !(y > -1 && y < float64(rows)) {
			return diag.New(code.Index, "", "index %v at position %d is out of range 0 to %d", at, i, rows-1)
		}
	}
	if rows*inner > 0 && &dst[0] != &x[0] {
		copy(dst[:rows*inner], x)
	}
	pool.Split(p, inner, 1+pool.Grain/max(1, len(index)), scatterRows[T, I]{dst, src, inner, index, combine})
	return nil
}

type scatterRows[T elementwise.Number, I Index] struct {
	dst, src []T
	inner    int
	index    []I
	combine  func(x, u T) T
}

func (s scatterRows[T, I]) Do(lo, hi, _ int) {
	for i, at := range s.index {
		src := s.src[i*s.inner+lo : i*s.inner+hi]
		dst := s.dst[int(at)*s.inner+lo:][:len(src)]
		if s.combine == nil {
			copy(dst, src)
			continue
		}
		for k, u := range src {
			dst[k] = s.combine(dst[k], u)
		}
	}
}
