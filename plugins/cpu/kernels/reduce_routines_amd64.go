package kernels

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

func init() {
	reduceTable.Add(isa.AVX2, reduceAVX2)
	reduceTable.Add(isa.AVX512, reduceAVX512)
}

func reduceAVX2() *reduceRoutines {
	lanes := isa.AVX2.Lanes
	r := &reduceRoutines{
		sum: sumOf(lanes, sumAVX2), deviations: deviationsOf(lanes, deviationsAVX2), normalize: normalizeOf(lanes, normalizeAVX2),
	}
	return r.setFolds(foldRowAVX2, foldRowsAVX2, foldEachAVX2, softmaxRoutines{expRowAVX2, expSumRowAVX2, scaleRowAVX2, shiftRowAVX2,
		expRowsAVX2, expSumRowsAVX2, scaleColumnsAVX2, shiftColumnsAVX2})
}

func reduceAVX512() *reduceRoutines {
	lanes := isa.AVX512.Lanes
	r := &reduceRoutines{
		sum: sumOf(lanes, sumAVX512), deviations: deviationsOf(lanes, deviationsAVX512), normalize: normalizeOf(lanes, normalizeAVX512),
	}
	return r.setFolds(foldRowAVX512, foldRowsAVX512, foldEachAVX512, softmaxRoutines{expRowAVX512, expSumRowAVX512, scaleRowAVX512, shiftRowAVX512,
		expRowsAVX512, expSumRowsAVX512, scaleColumnsAVX512, shiftColumnsAVX512})
}
