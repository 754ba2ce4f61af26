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
	return r.setFolds(foldRowAVX2, foldRowsAVX2, foldEachAVX2, softmaxRoutines{expRowAVX2, expSumRowAVX2, scaleRowAVX2,
		shiftRowAVX2,
		expRowsAVX2, expSumRowsAVX2, scaleColumnsAVX2, shiftColumnsAVX2})
}

func avx512() *Routines {
	lanes := isa.AVX512.Lanes
	r := &Routines{
		Sum: sumOf(lanes, sumAVX512), Deviations: deviationsOf(lanes, deviationsAVX512),
		Normalize: normalizeOf(lanes, normalizeAVX512), NormRows: normRowsOf(lanes, normRowsAVX512),
	}
	return r.setFolds(foldRowAVX512, foldRowsAVX512, foldEachAVX512, softmaxRoutines{expRowAVX512, expSumRowAVX512,
		scaleRowAVX512, shiftRowAVX512,
		expRowsAVX512, expSumRowsAVX512, scaleColumnsAVX512, shiftColumnsAVX512})
}
