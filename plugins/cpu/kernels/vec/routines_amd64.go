package vec

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

func init() {
	table.Add(isa.AVX2, avx2)
	table.Add(isa.AVX512, avx512)
}

func avx2() *Routines {
	lanes := isa.AVX2.Lanes
	r := &Routines{
		Transpose: transposeOf(lanes, transposeAVX2),
		Stream:    streamAVX2, StoreFence: storeFence, PrefetchRows: prefetchRows,
		CopyRows:   copyRowsOf(lanes, copyRowsAVX2),
		Reverse:    reverseOf(lanes, reverseAVX2),
		DotRows:    dotRowsOf(dotRowsAVX2),
		DotsFew:    dotsFewOf(dotRowsAVX2, dots2AVX2, dots3AVX2, dots4AVX2),
		WidenF16:   convertOf(lanes, widenF16AVX2, widenF16),
		WidenBF16:  convertOf(lanes, widenBF16AVX2, dtype.BF16ToF32),
		NarrowF16:  convertOf(lanes, narrowF16AVX2, dtype.F32ToF16),
		NarrowBF16: convertOf(lanes, narrowBF16AVX2, dtype.F32ToBF16),
	}
	return r.setCopies(lanes, copyRunsOf(copyRunsAVX2), evensAVX2, zipAVX2).
		setStencils(lanes, gatherRowsAVX2, stencilAVX2, stencilEvensAVX2, stencilEachAVX2).
		setPixels(lanes, stencilPixelsAVX2).
		setLines(lanes, stencilLinesAVX2, stencilEvenLinesAVX2)
}

func avx512() *Routines {
	lanes := isa.AVX512.Lanes
	r := &Routines{
		Transpose: transposeOf(lanes, transposeAVX512),
		Stream:    streamAVX512, StoreFence: storeFence, PrefetchRows: prefetchRows,
		CopyRows:   copyRowsOf(lanes, copyRowsAVX512),
		Reverse:    reverseOf(lanes, reverseAVX512),
		DotRows:    dotRowsOf(dotRowsAVX512),
		DotsFew:    dotsFewOf(dotRowsAVX512, dots2AVX512, dots3AVX512, dots4AVX512),
		WidenF16:   convertOf(lanes, widenF16AVX512, widenF16),
		WidenBF16:  convertOf(lanes, widenBF16AVX512, dtype.BF16ToF32),
		NarrowF16:  convertOf(lanes, narrowF16AVX512, dtype.F32ToF16),
		NarrowBF16: convertOf(lanes, narrowBF16AVX512, dtype.F32ToBF16),
	}
	return r.setCopies(lanes, copyRunsOf(copyRunsAVX512), evensAVX512, zipAVX512).
		setStencils(lanes, gatherRowsAVX512, stencilAVX512, stencilEvensAVX512, stencilEachAVX512).
		setPixels(lanes, stencilPixelsAVX512).
		setLines(lanes, stencilLinesAVX512, stencilEvenLinesAVX512)
}

func dotsFewOf(one func(dst *float32, inc int, mat *float32, ld int, rows int, x *float32, k int),
	several ...func(dst *float32, ldd int, mat *float32, ld int, rows int, x *float32, ldx int, k int)) func([]float32,
	int, []float32, int, int, []float32, int, int, int) {
	const together = 4 // rows that the routines read at a time
	return func(dst []float32, ldd int, mat []float32, ld, rows int, x []float32, ldx, few, k int) {
		f := several[few-2]
		if rows == 0 {
			return
		}
		_, _, _ = dst[(few-1)*ldd+rows-1], mat[(rows-1)*ld+k-1], x[(few-1)*ldx+k-1]
		whole := rows / together * together
		if whole > 0 {
			f(&dst[0], ldd, &mat[0], ld, whole, &x[0], ldx, k)
		}
		for m := 0; m < few && whole < rows; m++ {
			one(&dst[m*ldd+whole], 1, &mat[whole*ld], ld, rows-whole, &x[m*ldx], k)
		}
	}
}

func reverseOf(lanes int, f func(dst, src *float32, blocks int)) func(dst, src []float32) {
	return func(dst, src []float32) {
		dst = dst[:len(src)]
		whole := len(src) / lanes * lanes
		if whole > 0 {
			f(&dst[len(src)-whole], &src[0], whole/lanes)
		}
		ReverseInGo(dst[:len(src)-whole], src[whole:])
	}
}

// setCopies gives a set its routines that copy images for convolutions. For the index expressions see native.go.
func (r *Routines) setCopies(lanes int, runs func([]float32, int, []float32, []int, int, []int, int),
	evens func(dst, src *float32, blocks int),
	zip func(dst, a, b *float32, blocks int)) *Routines {
	r.CopyRuns = runs
	r.Evens = func(dst, src []float32) {
		n := min(len(dst), len(src)/2) / lanes
		if n > 0 {
			evens(&dst[0], &src[0], n)
		}
		if n *= lanes; n < len(dst) {
			evensGeneric(dst[n:], src[2*n:])
		}
	}
	r.Zip = func(dst, a, b []float32) {
		b, dst = b[:len(a)], dst[:2*len(a)]
		n := len(a) / lanes
		if n > 0 {
			zip(&dst[0], &a[0], &b[0], n)
		}
		if n *= lanes; n < len(a) {
			zipGeneric(dst[2*n:], a[n:], b[n:])
		}
	}
	return r
}

// setStencils gives a set its routines that gather images for convolutions and compute stencils. For the index
// expressions see native.go.
func (r *Routines) setStencils(lanes int, gather func(dst *float32, ldd int, src *float32, lds int, rows int,
	at *int32),
	stencil, evens func(dst, src *float32, at *int, taps int, w *float32, bias float32, blocks int),
	each func(dst, src *float32, at *int, taps int, w *float32, place *int, bias *float32, blocks int)) *Routines {
	r.GatherRows = func(dst []float32, ldd int, src []float32, lds, rows int, at []int32) {
		last := int32(-1)
		for _, k := range at[:lanes] {
			last = max(last, k)
		}
		if rows == 0 {
			return
		}
		_ = dst[(rows-1)*ldd+lanes-1]
		if last < 0 {
			for i := range rows {
				clear(dst[i*ldd:][:lanes])
			}
			return
		}
		_ = src[(rows-1)*lds+int(last)]
		gather(&dst[0], ldd, &src[0], lds, rows, &at[0])
	}
	// The last elements are computed in a vector that overlaps the one before.
	r.Stencil = func(dst, src []float32, at []int, most int, w []float32, bias float32) {
		n := len(dst)
		w = w[:len(at)]
		if n < lanes || len(at) == 0 {
			stencilGeneric(dst, src, at, most, w, bias)
			return
		}
		_ = src[most+n-1]
		stencil(&dst[0], &src[0], &at[0], len(at), &w[0], bias, n/lanes)
		if n%lanes > 0 {
			stencil(&dst[n-lanes], &src[n-lanes], &at[0], len(at), &w[0], bias, 1)
		}
	}
	r.StencilEvens = func(dst, src []float32, at []int, most int, w []float32, bias float32) {
		n := len(dst)
		w = w[:len(at)]
		if n < lanes || len(at) == 0 {
			stencilEvensGeneric(dst, src, at, most, w, bias)
			return
		}
		whole := n / lanes * lanes
		_ = src[most+2*whole-1]
		evens(&dst[0], &src[0], &at[0], len(at), &w[0], bias, n/lanes)
		switch last := n - lanes; {
		case whole == n:
		case most+2*n <= len(src):
			evens(&dst[last], &src[2*last], &at[0], len(at), &w[0], bias, 1)
		default:
			stencilEvensGeneric(dst[whole:], src[2*whole:], at, most, w, bias)
		}
	}
	r.StencilEach = func(dst, src []float32, at []int, w []float32, place []int, bias []float32) {
		n := checkStencil(dst, src, at)
		checkStencil(dst, w, place[:len(at)])
		bias = bias[:n]
		if n < lanes || len(at) == 0 {
			stencilEachGeneric(dst, src, at, w, place, bias)
			return
		}
		each(&dst[0], &src[0], &at[0], len(at), &w[0], &place[0], &bias[0], n/lanes)
		if last := n - lanes; n%lanes > 0 {
			each(&dst[last], &src[last], &at[0], len(at), &w[last], &place[0], &bias[last], 1)
		}
	}
	return r
}

// checkStencil panics if a stencil reads outside of src. It returns the number of elements that the stencil computes.
func checkStencil(dst, src []float32, at []int) int {
	for _, k := range at {
		if k < 0 || k+len(dst) > len(src) {
			panic("BUG: a stencil reads outside of its operand")
		}
	}
	return len(dst)
}

func (r *Routines) setPixels(lanes int,
	f func(dst, src *float32, at *int, taps int, w, bias *float32, step, pixels int)) *Routines {
	r.StencilPixels = func(dst, src []float32, at []int, most int, w, bias []float32, step int) {
		pixels := len(dst) / lanes
		if pixels == 0 || len(at) == 0 {
			panic("BUG: StencilPixels of nothing")
		}
		_, _, _ = src[most+(pixels-1)*step+lanes-1], w[len(at)*lanes-1], bias[lanes-1]
		f(&dst[0], &src[0], &at[0], len(at), &w[0], &bias[0], step, pixels)
	}
	return r
}

// setLines gives a set its routines that compute stencils of several lines.
func (r *Routines) setLines(lanes int, one, two func(dst *float32, ldd int, src *float32, lds int, at *int, taps int,
	w *float32, bias float32, first, last, inner *float32, blocks, lines int)) *Routines {
	adapt := func(step int, f func(dst *float32, ldd int, src *float32, lds int, at *int, taps int, w *float32,
		bias float32, first, last, inner *float32, blocks, lines int)) func([]float32, int, []float32, int, []int, int,
		[]float32, float32, [3][]float32, int, int) {
		return func(dst []float32, ldd int, src []float32, lds int, at []int, most int, w []float32, bias float32,
			masks [3][]float32, n, lines int) {
			w = w[:len(at)]
			_, _ = dst[(lines-1)*ldd+n-1], src[(lines-1)*lds+most+step*n-1]
			for _, m := range masks {
				_ = m[len(at)*lanes-1]
			}
			f(&dst[0], ldd, &src[0], lds, &at[0], len(at), &w[0], bias, &masks[0][0], &masks[1][0], &masks[2][0],
				n/lanes, lines)
		}
	}
	r.StencilLines, r.StencilEvenLines = adapt(1, one), adapt(2, two)
	return r
}
