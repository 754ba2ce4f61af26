package kernels

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

func init() {
	storedTable.Add(isa.AVX2, storedAVX2)
	storedTable.Add(isa.AVX512, storedAVX512)
}

func storedAVX2() *storedRoutines {
	lanes := isa.AVX2.Lanes
	return &storedRoutines{packed: packedAVX2(), dotF16: dotHalvesOf(lanes, dotF16AVX2), dotBF16: dotHalvesOf(lanes, dotBF16AVX2)}
}

func storedAVX512() *storedRoutines {
	lanes := isa.AVX512.Lanes
	return &storedRoutines{packed: packedAVX512(), dotF16: dotHalvesOf(lanes, dotF16AVX512), dotBF16: dotHalvesOf(lanes, dotBF16AVX512)}
}
