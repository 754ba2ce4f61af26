//go:build amd64 || arm64

package vec

import (
	"math"

	"github.com/rlx-go/rlx/core/dtype"
)

func transposeOf(lanes int, f func(dst *float32, ldd int, src *float32, lds int, rows int, blocks int)) func(
	[]float32, int, []float32, int, int, int) {
	return func(dst []float32, ldd int, src []float32, lds int, rows, cols int) {
		if cols == 0 || rows == 0 {
			return
		}
		_, _ = dst[(cols-1)*ldd+lanes-1], src[(rows-1)*lds+cols-1]
		f(&dst[0], ldd, &src[0], lds, rows, cols/lanes)
	}
}

func copyRowsOf(lanes int, f func(dst *float32, ldd int, src *float32, lds int, rows int)) func(
	[]float32, int, []float32, int, int) {
	return func(dst []float32, ldd int, src []float32, lds int, rows int) {
		if rows == 0 {
			return
		}
		_, _ = dst[(rows-1)*ldd+lanes-1], src[(rows-1)*lds+lanes-1]
		f(&dst[0], ldd, &src[0], lds, rows)
	}
}

func copyRunsOf(f func(dst *float32, ldd int, src *float32, at *int, rows int, runs *int, n int, wide int)) func(
	[]float32, int, []float32, []int, int, []int, int) {
	return func(dst []float32, ldd int, src []float32, at []int, most int, runs []int, wide int) {
		if len(at) == 0 || len(runs) == 0 {
			return
		}
		far := 0
		for j := 1; j < len(runs); j += 2 {
			far = max(far, runs[j])
		}
		_, _ = dst[(len(at)-1)*ldd+runs[len(runs)-2]+wide-1], src[most+far+wide-1]
		f(&dst[0], ldd, &src[0], &at[0], len(at), &runs[0], len(runs)/2, wide)
	}
}

func dotRowsOf(f func(dst *float32, inc int, mat *float32, ld int, rows int, x *float32, k int)) func(
	[]float32, int, []float32, int, int, []float32) {
	return func(dst []float32, inc int, mat []float32, ld int, rows int, x []float32) {
		if rows == 0 {
			return
		}
		k := len(x)
		if k == 0 {
			for i := range rows {
				dst[i*inc] = 0
			}
			return
		}
		_, _ = dst[(rows-1)*inc], mat[(rows-1)*ld+k-1]
		f(&dst[0], inc, &mat[0], ld, rows, &x[0], k)
	}
}

// convertOf turns a routine for whole vectors into one for any length. The function one converts the last elements.
func convertOf[D, S any](lanes int, f func(dst *D, src *S, blocks int), one func(S) D) func([]D, []S) {
	return func(dst []D, src []S) {
		dst = dst[:len(src)]
		n := len(src) / lanes
		if n > 0 {
			f(&dst[0], &src[0], n)
		}
		for i := n * lanes; i < len(src); i++ {
			dst[i] = one(src[i])
		}
	}
}

// widenF16 is dtype.F16ToF32 with the bits of the instructions: a signaling NaN becomes a quiet one.
func widenF16(h uint16) float32 {
	x := dtype.F16ToF32(h)
	if x != x {
		return math.Float32frombits(math.Float32bits(x) | 1<<22)
	}
	return x
}
