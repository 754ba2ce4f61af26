package reduce

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

func init() {
	table.Add(isa.AVX2, avx2)
	table.Add(isa.AVX512, avx512)
}

func avx2() *Routines {
	lanes := isa.AVX2.Lanes
	r := &Routines{
		Sum: sumOf(lanes, sumAVX2), Deviations: deviationsOf(lanes, deviationsAVX2),
		Normalize: normalizeOf(lanes, normalizeAVX2), NormRows: normRowsOf(lanes, normRowsAVX2),
	}
	return r.setFolds(foldRowAVX2, foldRowsAVX2, foldEachAVX2, foldPixelsAVX2,
		softmaxRoutines{expRowAVX2, expSumRowAVX2, scaleRowAVX2,
			shiftRowAVX2,
			expRowsAVX2, expSumRowsAVX2, scaleColumnsAVX2, shiftColumnsAVX2})
}

func avx512() *Routines {
	lanes := isa.AVX512.Lanes
	r := &Routines{
		Sum: sumOf(lanes, sumAVX512), Deviations: deviationsOf(lanes, deviationsAVX512),
		Normalize: normalizeOf(lanes, normalizeAVX512), NormRows: normRowsOf(lanes, normRowsAVX512),
	}
	return r.setFolds(foldRowAVX512, foldRowsAVX512, foldEachAVX512, foldPixelsAVX512,
		softmaxRoutines{expRowAVX512, expSumRowAVX512,
			scaleRowAVX512, shiftRowAVX512,
			expRowsAVX512, expSumRowsAVX512, scaleColumnsAVX512, shiftColumnsAVX512})
}

func normRowsOf(lanes int,
	f func(dst, x, gamma, beta *float32, rows, blocks int, count, eps float64, center uint64)) func(
	dst, x, gamma, beta []float32, n int, eps float32, center bool) bool {
	return func(dst, x, gamma, beta []float32, n int, eps float32, center bool) bool {
		if n == 0 || n%lanes != 0 || n > Block {
			return false
		}
		if rows := len(x) / n; rows > 0 {
			_, _, _ = dst[len(x)-1], gamma[n-1], beta[n-1]
			var mask uint64
			if center {
				mask = ^uint64(0)
			}
			f(&dst[0], &x[0], &gamma[0], &beta[0], rows, n/lanes, float64(n), float64(eps), mask)
		}
		return true
	}
}
