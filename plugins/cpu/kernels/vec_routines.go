package kernels

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// vecRoutines copy, transpose and convert floats, and add up images. All kernels use them.
type vecRoutines struct {
	// transpose is dst[j*ldd+i] = src[i*lds+j], i < rows <= lanes, j < cols; cols is a multiple of lanes. It may write
	// whole vectors, so lanes floats of each row of dst; the rows are written in ascending order.
	transpose func(dst []float32, ldd int, src []float32, lds int, rows, cols int)
	// copyRows is dst[i*ldd:][:lanes] = src[i*lds:][:lanes], i < rows, in ascending order.
	copyRows func(dst []float32, ldd int, src []float32, lds int, rows int)
	// gatherRows is dst[i*ldd+j] = src[i*lds+at[j]], i < rows, j < lanes, or 0 if at[j] is negative.
	gatherRows func(dst []float32, ldd int, src []float32, lds, rows int, at []int32)
	// copyAt is dst[i*ldd:][:lanes] = src[at[i]:][:lanes] in ascending order of i; at[i] <= most.
	copyAt func(dst []float32, ldd int, src []float32, at []int, most int)
	// reverse is dst[n-1-i] = src[i]; both have n elements.
	reverse func(dst, src []float32)
	// evens is dst[i] = src[2*i], where dst may be src; zip is dst[2*i] = a[i], dst[2*i+1] = b[i].
	evens func(dst, src []float32)
	zip   func(dst, a, b []float32)
	// stencil is dst[i] = bias + sum_t w[t]*src[at[t]+i]. stencilEvens has src[at[t]+2*i] there, and reads one element
	// more for each t. 0 <= at[t] <= most. stencilEach is bias[i] + sum_t w[place[t]+i]*src[at[t]+i]. dst does not
	// overlap src.
	stencil, stencilEvens func(dst, src []float32, at []int, most int, w []float32, bias float32)
	stencilEach           func(dst, src []float32, at []int, w []float32, place []int, bias []float32)
	// dotRows is dst[i*inc] = sum_k mat[i*ld+k]*x[k], i < rows.
	dotRows             func(dst []float32, inc int, mat []float32, ld int, rows int, x []float32)
	widenF16, widenBF16 func(dst []float32, src []uint16)
	// narrowF16 and narrowBF16 round to the nearest, ties to even.
	narrowF16, narrowBF16 func(dst []uint16, src []float32)

	// stream copies 64*lines bytes with stores that bypass the caches, and brings as many from the addresses next and
	// after into the L1 cache. dst is aligned to 64 bytes. nil if the set has no such routine.
	stream     func(dst, src *uint8, next, after uintptr, lines int)
	storeFence func() // makes the stores that bypass the caches visible before later ones
	// prefetchRows brings the cache lines at the addresses at+i*stride for i < rows into the L2 cache, whether or not
	// there is memory. rows > 0. nil if the set has no such routine.
	prefetchRows func(at, stride uintptr, rows int)
}

var vecTable isa.Table[vecRoutines]

func init() { vecTable.Add(isa.Generic, vecGeneric) }

// vecOn returns the routines of a set.
func vecOn(s *isa.Set) *vecRoutines { return vecTable.On(s) }

func vecGeneric() *vecRoutines {
	lanes := isa.Generic.Lanes
	r := &vecRoutines{
		transpose: func(dst []float32, ldd int, src []float32, lds int, rows, cols int) {
			for i := range rows {
				for j, x := range src[i*lds : i*lds+cols] {
					dst[j*ldd+i] = x
				}
			}
		},
		copyRows: func(dst []float32, ldd int, src []float32, lds int, rows int) {
			for i := range rows {
				copy(dst[i*ldd:][:lanes], src[i*lds:][:lanes])
			}
		},
		reverse: reverseInGo[float32],
		dotRows: func(dst []float32, inc int, mat []float32, ld int, rows int, x []float32) {
			for i := range rows {
				dst[i*inc] = dotGeneric(mat[i*ld:][:len(x)], x)
			}
		},
		widenF16:   mapOf(dtype.F16ToF32),
		widenBF16:  mapOf(dtype.BF16ToF32),
		narrowF16:  mapOf(dtype.F32ToF16),
		narrowBF16: mapOf(dtype.F32ToBF16),
	}
	return r.setStencilsInGo(lanes)
}

// setStencilsInGo gives a set loops in Go in place of the routines with which convolutions read images.
func (r *vecRoutines) setStencilsInGo(lanes int) *vecRoutines {
	r.gatherRows = func(dst []float32, ldd int, src []float32, lds, rows int, at []int32) {
		for i := range rows {
			d := dst[i*ldd : i*ldd+lanes]
			for j, k := range at[:lanes] {
				if d[j] = 0; k >= 0 {
					d[j] = src[i*lds+int(k)]
				}
			}
		}
	}
	r.copyAt = func(dst []float32, ldd int, src []float32, at []int, _ int) {
		for i, k := range at {
			d, from := dst[i*ldd:][:lanes], src[k:][:lanes]
			for j := range d {
				d[j] = from[j]
			}
		}
	}
	r.evens, r.zip = evensGeneric, zipGeneric
	r.stencil, r.stencilEvens, r.stencilEach = stencilGeneric, stencilEvensGeneric, stencilEachGeneric
	return r
}

func stencilGeneric(dst, src []float32, at []int, _ int, w []float32, bias float32) {
	for i := range dst {
		dst[i] = bias
	}
	for t, x := range w[:len(at)] {
		from := src[at[t]:][:len(dst)]
		for i, y := range from {
			dst[i] += x * y
		}
	}
}

func stencilEvensGeneric(dst, src []float32, at []int, _ int, w []float32, bias float32) {
	for i := range dst {
		dst[i] = bias
	}
	for t, x := range w[:len(at)] {
		from := src[at[t]:][:2*len(dst)]
		for i := range dst {
			dst[i] += x * from[2*i]
		}
	}
}

func stencilEachGeneric(dst, src []float32, at []int, w []float32, place []int, bias []float32) {
	copy(dst, bias[:len(dst)])
	for t, k := range at {
		from, by := src[k:][:len(dst)], w[place[t]:][:len(dst)]
		for i, y := range from {
			dst[i] += by[i] * y
		}
	}
}

func evensGeneric(dst, src []float32) {
	for i := range dst {
		dst[i] = src[2*i]
	}
}

func zipGeneric(dst, a, b []float32) {
	for i, x := range a {
		dst[2*i], dst[2*i+1] = x, b[i]
	}
}

func mapOf[D, S any](f func(S) D) func([]D, []S) {
	return func(dst []D, src []S) {
		dst = dst[:len(src)]
		for i, x := range src {
			dst[i] = f(x)
		}
	}
}

func dotGeneric(a, b []float32) float32 {
	var s [4]float32
	b = b[:len(a)]
	for len(a) >= 4 {
		s[0] += a[0] * b[0]
		s[1] += a[1] * b[1]
		s[2] += a[2] * b[2]
		s[3] += a[3] * b[3]
		a, b = a[4:], b[4:]
	}
	for i, x := range a {
		s[0] += x * b[i]
	}
	return (s[0] + s[1]) + (s[2] + s[3])
}

func reverseInGo[T any](dst, src []T) {
	for i, x := range src {
		dst[len(dst)-1-i] = x
	}
}
