// Package vec has routines that copy, transpose, convert and add up floats. Kernels of all families use them.
package vec

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// Routines copy, transpose and convert floats, and add up images. All kernels use them.
type Routines struct {
	// Transpose is dst[j*ldd+i] = src[i*lds+j], i < rows <= lanes, j < cols; cols is a multiple of lanes. It may write
	// whole vectors, so lanes floats of each row of dst; the rows are written in ascending order.
	Transpose func(dst []float32, ldd int, src []float32, lds int, rows, cols int)
	// CopyRows is dst[i*ldd:][:lanes] = src[i*lds:][:lanes], i < rows, in ascending order.
	CopyRows func(dst []float32, ldd int, src []float32, lds int, rows int)
	// GatherRows is dst[i*ldd+j] = src[i*lds+at[j]], i < rows, j < lanes, or 0 if at[j] is negative.
	GatherRows func(dst []float32, ldd int, src []float32, lds, rows int, at []int32)
	// CopyRuns is dst[i*ldd+runs[2*j]:][:wide] = src[at[i]+runs[2*j+1]:][:wide], in ascending order of i and then of
	// j. wide is 4, 8 or 16, and at most lanes; at[i] <= most; runs[2*j] ascends.
	CopyRuns func(dst []float32, ldd int, src []float32, at []int, most int, runs []int, wide int)
	// Reverse is dst[n-1-i] = src[i]; both have n elements.
	Reverse func(dst, src []float32)
	// Evens is dst[i] = src[2*i], where dst may be src; zip is dst[2*i] = a[i], dst[2*i+1] = b[i].
	Evens func(dst, src []float32)
	Zip   func(dst, a, b []float32)
	// Stencil is dst[i] = bias + sum_t w[t]*src[at[t]+i]. StencilEvens has src[at[t]+2*i] there, and reads one element
	// more for each t. 0 <= at[t] <= most. StencilEach is bias[i] + sum_t w[place[t]+i]*src[at[t]+i]. dst does not
	// overlap src.
	Stencil, StencilEvens func(dst, src []float32, at []int, most int, w []float32, bias float32)
	StencilsInGo          bool // Stencil is a loop in Go
	StencilEach           func(dst, src []float32, at []int, w []float32, place []int, bias []float32)
	// StencilPixels is dst[p*lanes+i] = bias[i] + sum_t w[t*lanes+i]*src[at[t]+p*step+i] for i < lanes, where dst has
	// pixels of lanes elements. 0 <= at[t] <= most. There is at least one pixel and one t. nil if the set has no such
	// routine.
	StencilPixels func(dst, src []float32, at []int, most int, w, bias []float32, step int)
	// StencilLines is dst[l*ldd+i] = bias + sum_t w[t]*(src[l*lds+at[t]+i] & mask) for l < lines and i < n, in
	// ascending order of l. n is a multiple of lanes, and 0 <= at[t] <= most. The first lanes elements have the mask
	// masks[0][t*lanes+i], the last ones masks[1][t*lanes+i%lanes], and the others masks[2], which has only ones.
	// StencilEvenLines has src[l*lds+at[t]+2*i] there, and reads one element more. nil if the set has no such routines.
	StencilLines, StencilEvenLines func(dst []float32, ldd int, src []float32, lds int, at []int, most int, w []float32,
		bias float32, masks [3][]float32, n, lines int)
	// DotRows is dst[i*inc] = sum_k mat[i*ld+k]*x[k], i < rows.
	DotRows func(dst []float32, inc int, mat []float32, ld int, rows int, x []float32)
	// DotsFew is dst[m*ldd+i] = sum_k mat[i*ld+k]*x[m*ldx+k] for i < rows and m < few, where few is 2 to 4 and k > 0.
	// It reads mat once. The bits of dst[m*ldd+i] depend on few and on whether i is among the last rows%4. nil if the
	// set has no such routine.
	DotsFew             func(dst []float32, ldd int, mat []float32, ld, rows int, x []float32, ldx, few, k int)
	WidenF16, WidenBF16 func(dst []float32, src []uint16)
	// NarrowF16 and NarrowBF16 round to the nearest, ties to even.
	NarrowF16, NarrowBF16 func(dst []uint16, src []float32)

	// Stream copies 64*lines bytes with stores that bypass the caches. It brings the same number of bytes at the
	// addresses next and after into the L1 cache. dst is aligned to 64 bytes. It is nil if the set has no such routine.
	Stream     func(dst, src *uint8, next, after uintptr, lines int)
	StoreFence func() // makes the stores that bypass the caches visible before later ones
	// PrefetchRows brings the cache lines at the addresses at+i*stride for i < rows into the L2 cache, whether or not
	// there is memory. rows > 0. nil if the set has no such routine.
	PrefetchRows func(at, stride uintptr, rows int)
}

var table isa.Table[Routines]

func init() { table.Add(isa.Generic, generic) }

// On returns the routines of a set.
func On(s *isa.Set) *Routines { return table.On(s) }

func generic() *Routines {
	lanes := isa.Generic.Lanes
	r := &Routines{
		Transpose: func(dst []float32, ldd int, src []float32, lds int, rows, cols int) {
			for i := range rows {
				for j, x := range src[i*lds : i*lds+cols] {
					dst[j*ldd+i] = x
				}
			}
		},
		CopyRows: func(dst []float32, ldd int, src []float32, lds int, rows int) {
			for i := range rows {
				copy(dst[i*ldd:][:lanes], src[i*lds:][:lanes])
			}
		},
		Reverse: ReverseInGo[float32],
		DotRows: func(dst []float32, inc int, mat []float32, ld int, rows int, x []float32) {
			for i := range rows {
				dst[i*inc] = dotGeneric(mat[i*ld:][:len(x)], x)
			}
		},
		WidenF16:   MapOf(dtype.F16ToF32),
		WidenBF16:  MapOf(dtype.BF16ToF32),
		NarrowF16:  MapOf(dtype.F32ToF16),
		NarrowBF16: MapOf(dtype.F32ToBF16),
	}
	return r.setStencilsInGo(lanes)
}

// setStencilsInGo gives a set loops in Go in place of the routines with which convolutions read images.
func (r *Routines) setStencilsInGo(lanes int) *Routines {
	r.GatherRows = func(dst []float32, ldd int, src []float32, lds, rows int, at []int32) {
		for i := range rows {
			d := dst[i*ldd : i*ldd+lanes]
			for j, k := range at[:lanes] {
				d[j] = 0
				if k >= 0 {
					d[j] = src[i*lds+int(k)]
				}
			}
		}
	}
	r.CopyRuns = func(dst []float32, ldd int, src []float32, at []int, _ int, runs []int, wide int) {
		for i, k := range at {
			for j := 0; j < len(runs); j += 2 {
				d, from := dst[i*ldd+runs[j]:][:wide], src[k+runs[j+1]:][:wide]
				for l := range d {
					d[l] = from[l]
				}
			}
		}
	}
	r.Evens, r.Zip = evensGeneric, zipGeneric
	r.Stencil, r.StencilEvens, r.StencilEach = stencilGeneric, stencilEvensGeneric, stencilEachGeneric
	r.StencilsInGo = true
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

func MapOf[D, S any](f func(S) D) func([]D, []S) {
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

func ReverseInGo[T any](dst, src []T) {
	for i, x := range src {
		dst[len(dst)-1-i] = x
	}
}
