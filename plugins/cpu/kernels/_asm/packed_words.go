package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// genPackedWords writes routines that unpack weights to integers without a sign, and products of a few rows of bytes
// with weights as they are stored.
func genPackedWords(v vec) {
	if v.wide() {
		return
	}
	for _, f := range integerFormats {
		if f.excess() > 0 {
			unpackUnsigned(f)
		}
		if f.nibbles() {
			unpackNibbles(f)
			unpackShifted(f)
		}
	}
	for rows := 2; rows <= 4; rows++ {
		fewRowsQ8(rows)
	}
}

// excess returns what is added to the integers of a format so that none is negative. Sums of products with the original
// integers fit into 16 bits.
func (f integerFormat) excess() uint32 {
	return map[string]uint32{"Q4_0": 8, "Q5_0": 16, "Q3_K": 4, "Q6_K": 32, "MXFP4": 12}[f.name]
}

// nibbles reports whether the integers of a format have 8 bits.
func (f integerFormat) nibbles() bool {
	switch f.name {
	case "Q8_0", "Q8_K", "IQ4_NL", "IQ4_XS":
		return true
	}
	return false
}

// unpackUnsigned is unpackIntegers for integers without a sign.
func unpackUnsigned(f integerFormat) {
	unpackAs(f, "unpackUnsigned", fmt.Sprintf("It adds %d to the integers.", f.excess()), 1,
		func(b *integerBlock, i int, x VecVirtual) {
			VPADDB(bytesConst(f.excess()), x, x)
			VMOVDQU(x, Mem{Base: b.q, Disp: i})
		})
}

// unpackNibbles is unpackIntegers for integers of 8 bits that are split.
func unpackNibbles(f integerFormat) {
	unpackAs(f, "unpackNibbles",
		"An integer is split into nibbles: 32 low ones are followed by 32 high ones, to which it adds 8.", 2,
		func(b *integerBlock, i int, x VecVirtual) {
			VMOVDQU(masked(x, 15), Mem{Base: b.q, Disp: 2 * i})
			high := masked(shiftRight(x, 4), 15)
			VPXOR(bytesConst(8), high, high)
			VMOVDQU(high, Mem{Base: b.q, Disp: 2*i + 32})
		})
}

// unpackShifted is unpackUnsigned for integers of 8 bits.
func unpackShifted(f integerFormat) {
	unpackAs(f, "unpackShifted", "It adds 128 to the integers.", 1, func(b *integerBlock, i int, x VecVirtual) {
		VPXOR(bytesConst(0x80), x, x)
		VMOVDQU(x, Mem{Base: b.q, Disp: i})
	})
}

func unpackAs(f integerFormat, name, doc string, width int, put func(b *integerBlock, i int, x VecVirtual)) {
	writeUnpack(f, name+f.name, width, put, name+f.name+unpackDoc, doc)
}
