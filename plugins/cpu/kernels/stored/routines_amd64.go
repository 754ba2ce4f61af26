package stored

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

func init() {
	table.Add(isa.AVX2, avx2)
	table.Add(isa.AVX512, avx512)
}

func avx2() *Routines {
	lanes := isa.AVX2.Lanes
	return &Routines{Packed: packedAVX2(), DotF16: dotHalvesOf(lanes, dotF16AVX2),
		dotBF16: dotHalvesOf(lanes, dotBF16AVX2)}
}

func avx512() *Routines {
	lanes := isa.AVX512.Lanes
	return &Routines{Packed: packedAVX512(), DotF16: dotHalvesOf(lanes, dotF16AVX512),
		dotBF16: dotHalvesOf(lanes, dotBF16AVX512)}
}
