package elementwise

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

func init() {
	table.Add(isa.AVX2, avx2)
	table.Add(isa.AVX512, avx512)
}

func avx2() *Routines {
	r := &Routines{choose: chooseOf(isa.AVX2.Lanes, chooseAVX2), mulAddRows: mulAddRowsAVX2}
	return r.setElementwise(isa.AVX2, unaryAVX2, binaryAVX2, compareAVX2, testAVX2, bitsAVX2, halfAVX2, halfMixedAVX2,
		binaryRestAVX2).
		setCasts(castAVX2, &affineRoutines{affineI8AVX2, affineU8AVX2}).
		setIntegers(integerAVX2)
}

func avx512() *Routines {
	r := &Routines{choose: chooseOf(isa.AVX512.Lanes, chooseAVX512), mulAddRows: mulAddRowsAVX512}
	return r.setElementwise(isa.AVX512, unaryAVX512, binaryAVX512, compareAVX512, testAVX512, bitsAVX512, halfAVX512,
		halfMixedAVX512, binaryRestAVX512).
		setCasts(castAVX512, &affineRoutines{affineI8AVX512, affineU8AVX512}).
		setIntegers(integerAVX512)
}
