package product

import "github.com/rlx-go/rlx/core/dtype"

// integersOfWords returns the formats of all packed types, for products that add up in 16 bits. VPMADDUBSW takes one
// unsigned operand, so the integers have an excess.
func integersOfWords() map[dtype.DType]integerFormat {
	all := signedIntegers(nil, [2]int{})
	set := func(d dtype.DType, excess int, nibbles bool, unpack unpackAsm, multiply eightsAsm) {
		f := all[d]
		f.excess, f.nibbles = excess, nibbles
		switch d {
		case dtype.Q8_0: // split into nibbles, it takes longer than rows that are multiplied together
			f.dots = mostDotRows
		case dtype.Q5_K, dtype.Q6_K:
			f.dots = 2
		default:
			f.dots = 3
		}
		f = f.unpackedBy(d, unpack)
		f.eights = eightsFormat{unpack, 4, true, multiply}
		all[d] = f
	}
	set(dtype.Q4_1, 0, false, unpackQ4_1, eights32LowAVX2)
	set(dtype.Q4_K, 0, false, unpackQ4_K, eights32LowAVX2)
	set(dtype.Q5_1, 0, false, unpackQ5_1, eights32FivesAVX2)
	set(dtype.Q5_K, 0, false, unpackQ5_K, eights32FivesAVX2)
	set(dtype.Q2_K, 0, false, unpackQ2_K, eights16LowAVX2)
	set(dtype.Q4_0, 8, false, unpackUnsignedQ4_0, eights32AVX2)
	set(dtype.Q5_0, 16, false, unpackUnsignedQ5_0, eights32AVX2)
	set(dtype.MXFP4, 12, false, unpackUnsignedMXFP4, eights32AVX2)
	set(dtype.Q3_K, 4, false, unpackUnsignedQ3_K, eights16AVX2)
	set(dtype.Q6_K, 32, false, unpackUnsignedQ6_K, eights16AVX2)
	set(dtype.Q8_0, 8, true, unpackNibblesQ8_0, eights32NibblesAVX2)
	set(dtype.Q8_K, 8, true, unpackNibblesQ8_K, eights32NibblesAVX2)
	set(dtype.IQ4_NL, 8, true, unpackNibblesIQ4_NL, eights32NibblesAVX2)
	set(dtype.IQ4_XS, 8, true, unpackNibblesIQ4_XS, eights32NibblesAVX2)
	return all
}

// integersVNNI returns the formats of all packed types, for VPDPBUSD, which takes one unsigned operand, too.
func integersVNNI() map[dtype.DType]integerFormat {
	all := signedIntegers(nil, [2]int{})
	set := func(d dtype.DType, excess int, unpack unpackAsm, multiply eightsAsm) {
		f := all[d]
		f.excess = excess
		f.dots = 3
		if d == dtype.Q8_0 {
			f.dots = 2
		}
		f = f.unpackedBy(d, unpack)
		f.eights = eightsFormat{unpack, 8, false, multiply}
		all[d] = f
	}
	set(dtype.Q4_1, 0, unpackQ4_1, eights32LowVNNI)
	set(dtype.Q4_K, 0, unpackQ4_K, eights32LowVNNI)
	set(dtype.Q5_1, 0, unpackQ5_1, eights32LowVNNI)
	set(dtype.Q5_K, 0, unpackQ5_K, eights32LowVNNI)
	set(dtype.Q2_K, 0, unpackQ2_K, eights16LowVNNI)
	set(dtype.Q4_0, 8, unpackUnsignedQ4_0, eights32VNNI)
	set(dtype.Q5_0, 16, unpackUnsignedQ5_0, eights32VNNI)
	set(dtype.MXFP4, 12, unpackUnsignedMXFP4, eights32VNNI)
	set(dtype.Q3_K, 4, unpackUnsignedQ3_K, eights16VNNI)
	set(dtype.Q6_K, 32, unpackUnsignedQ6_K, eights16VNNI)
	set(dtype.Q8_0, 128, unpackShiftedQ8_0, eights32VNNI)
	set(dtype.Q8_K, 128, unpackShiftedQ8_K, eights32VNNI)
	set(dtype.IQ4_NL, 128, unpackShiftedIQ4_NL, eights32VNNI)
	set(dtype.IQ4_XS, 128, unpackShiftedIQ4_XS, eights32VNNI)
	return all
}
