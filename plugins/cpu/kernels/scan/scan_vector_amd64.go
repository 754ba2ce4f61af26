package scan

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

func init() {
	scanTable.Add(isa.AVX2, func() *scanRoutines {
		return scansOf(isa.AVX2.Lanes, scanSumAVX2, scanProdAVX2, scanMaxAVX2)
	})
	scanTable.Add(isa.AVX512, func() *scanRoutines {
		return scansOf(isa.AVX512.Lanes, scanSumAVX512, scanProdAVX512, scanMaxAVX512)
	})
}

// scansOf adapts a set's routines of scans. Sums and products are computed in vectors of float64.
func scansOf(lanes int, sum, prod, max func(dst, src *float32, blocks int, acc float64) float64) *scanRoutines {
	return &scanRoutines{
		CumSum:  scanOf(lanes/2, func(a, b float64) float64 { return a + b }, sum),
		CumProd: scanOf(lanes/2, func(a, b float64) float64 { return a * b }, prod),
		CumMax:  scanOf(lanes, elementwise.Larger[float64], max),
	}
}

// scanOf turns a routine for whole vectors into one for any length. fold computes the last elements.
func scanOf(lanes int, fold func(a, b float64) float64,
	f func(dst, src *float32, blocks int, acc float64) float64) func(dst, src []float32, acc float64) float64 {
	return func(dst, src []float32, acc float64) float64 {
		dst = dst[:len(src)]
		n := len(src) / lanes
		if n > 0 {
			acc = f(&dst[0], &src[0], n, acc)
		}
		for i := n * lanes; i < len(src); i++ {
			acc = fold(acc, float64(src[i]))
			dst[i] = float32(acc)
		}
		return acc
	}
}
