package product

import (
	"unsafe"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

type integerWordsAsm = func(room *byte, sums *int32, fours, groups int, a, b *int8, dx, xs, dw, low, c *float32, ldc,
	resume int)

type fewWordsAsm = func(sums *int32, halves, groups int, a, b *int8, lda, step int, dx, xs, dw, low, c *float32,
	resume int)

// multiplyWords returns integerFormat.multiply of a format.
func (f integerFormat) multiplyWords(multiply integerWordsAsm, few fewWordsAsm) func(r groupProduct) {
	return func(r groupProduct) {
		r.check()
		if r.lda != 0 {
			_ = r.a[(integerSide-1)*r.lda+(r.groups-1)*r.stepA+r.group*f.width()-1]
			_, _ = r.sums[r.groups*integerSide-1], r.c[integerSide*integerSide-1]
			if r.ldc != integerSide {
				panic("BUG: C is not a block")
			}
			few(&r.sums[0], (r.columns+7)/8, r.groups, &r.a[0], &r.b[0], r.lda, r.stepA, &r.dx[0], isa.Head(r.xs),
				&r.dw[0], isa.Head(r.low), &r.c[0], r.resumes())
			return
		}
		_, _ = r.room[2*integerSide*integerSide-1], r.b[r.groups*integerSide*r.group*f.width()-1]
		_ = r.sums[r.groups*integerSide-1]
		room := (*byte)(unsafe.Pointer(&r.room[0]))
		multiply(room, &r.sums[0], (r.rows+3)/4, r.groups, &r.a[0], &r.b[0], &r.dx[0], isa.Head(r.xs), &r.dw[0],
			isa.Head(r.low), &r.c[0], r.ldc, r.resumes())
	}
}

// integersOfWords returns the formats of all packed types, for products that add up in 16 bits. VPMADDUBSW takes one
// unsigned operand, so the integers have an excess.
func integersOfWords() map[dtype.DType]integerFormat {
	all := signedIntegers(nil, [2]int{})
	set := func(d dtype.DType, excess int, nibbles bool, unpack unpackAsm, multiply integerWordsAsm, few fewWordsAsm) {
		f := all[d]
		f.excess, f.nibbles = excess, nibbles
		if d == dtype.Q8_0 || d == dtype.Q8_K {
			f.dots = mostDotRows // of 8 bits: splitting and unpacking take longer than eight products of rows
		} else { // four rows are those that multiplyIntegers computes at a time, and eight those of multiplyFew
			f.dots, f.few = 3, [2]int{5, 8}
		}
		if unpack != nil {
			f = f.unpackedBy(d, unpack)
		}
		f.multiply = f.multiplyWords(multiply, few)
		all[d] = f
	}
	set(dtype.Q4_1, 0, false, nil, integerWords32Low, fewWords32Low)
	set(dtype.Q4_K, 0, false, nil, integerWords32Low, fewWords32Low)
	set(dtype.Q5_1, 0, false, nil, integerWords32Fives, fewWords32Fives)
	set(dtype.Q5_K, 0, false, nil, integerWords32Fives, fewWords32Fives)
	set(dtype.Q2_K, 0, false, nil, integerWords16Low, fewWords16Low)
	set(dtype.Q4_0, 8, false, unpackUnsignedQ4_0, integerWords32, fewWords32)
	set(dtype.Q5_0, 16, false, unpackUnsignedQ5_0, integerWords32, fewWords32)
	set(dtype.MXFP4, 12, false, unpackUnsignedMXFP4, integerWords32, fewWords32)
	set(dtype.Q3_K, 4, false, unpackUnsignedQ3_K, integerWords16, fewWords16)
	set(dtype.Q6_K, 32, false, unpackUnsignedQ6_K, integerWords16, fewWords16)
	set(dtype.Q8_0, 8, true, unpackUnsignedQ8_0, integerWords32Nibbles, fewWords32Nibbles)
	set(dtype.Q8_K, 8, true, unpackUnsignedQ8_K, integerWords32Nibbles, fewWords32Nibbles)
	set(dtype.IQ4_NL, 8, true, unpackUnsignedIQ4_NL, integerWords32Nibbles, fewWords32Nibbles)
	set(dtype.IQ4_XS, 8, true, unpackUnsignedIQ4_XS, integerWords32Nibbles, fewWords32Nibbles)
	return all
}
