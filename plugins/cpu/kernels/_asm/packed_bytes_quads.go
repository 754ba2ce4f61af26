package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// blockQuad writes the product of blocks of q4_0 and a vector of bytes, for AVX-512 with VNNI and VBMI. A vector holds
// four blocks. One permutation of bytes collects their integers, and one of words their scales.
type blockQuad struct{ integerFormat }

// The constants of the product.
var (
	quadNibbles = Z31
	quadExcess  = Z30
	quadBytes   = Z29 // the indices of integers: those from 64 on are in the vector that begins quadSecond bytes later
	quadWords   = Z28 // the indices of scales, as words
	quadOrder   = Z27 // repeats each of four floats four times

	oneBlock = K3 // the bytes of a block
)

const quadSecond = 4*18 - 64

func (f blockQuad) constants() {
	VPBROADCASTD(bytesConst(0x0f), quadNibbles)
	VPBROADCASTD(bytesConst(8), quadExcess)
	at := func(l int) uint32 { // of byte l of a vector
		if i := f.bytes*(l/16) + 2 + l%16; i < 64 {
			return uint32(i)
		} else {
			return uint32(64 + i - quadSecond)
		}
	}
	VMOVDQU32(
		lanesConst(
			"quadBytes", 16, func(l int) uint32 { return at(4*l) | at(4*l+1)<<8 | at(4*l+2)<<16 | at(4*l+3)<<24 }),
		quadBytes)
	VMOVDQU32(lanesConst("quadWords", 16, func(l int) uint32 { return uint32(f.bytes/2*(l/2%4)) * 0x10001 }), quadWords)
	VMOVDQU32(fourfold(0), quadOrder)
	halfMasks()
	t := GP32()
	MOVL(U32(1<<f.bytes-1), t)
	KMOVD(t, oneBlock)
}

// activations loads the activations of four blocks, or of one: those of low and of high nibbles, the negative excess of
// their products, and their scales.
func (f blockQuad) activations(px, dx Register, at, blocks int) (x [2]VecVirtual, start, scale VecVirtual) {
	var pair [2]VecVirtual
	for i := range pair {
		x[i], pair[i] = ZMM(), ZMM()
		if mem := (Mem{Base: px, Disp: 32*at + 64*i}); blocks == 4 {
			VMOVDQU32(mem, pair[i])
		} else if i == 0 {
			VMOVDQU32_Z(mem, lowerHalf, pair[i])
		} else {
			VMOVDQA32(zero, pair[i])
		}
	}
	VSHUFI64X2(Imm(0x88), pair[1], pair[0], x[0]) // the first 16 of each block
	VSHUFI64X2(Imm(0xdd), pair[1], pair[0], x[1]) // the last 16
	start, scale = ZMM(), ZMM()
	negativeSums(quadExcess, start, x[:]...)
	if mem := (Mem{Base: dx, Disp: 4 * at}); blocks == 4 {
		VBROADCASTF32X4(mem, scale)
	} else {
		VMOVSS(mem, scale.AsX())
	}
	VPERMPS(scale, quadOrder, scale)
	return x, start, scale
}

// add adds the products of four blocks of a row, or of one, to its sum.
func (f blockQuad) add(w Register, at, blocks int, x [2]VecVirtual, start, scale, acc VecVirtual) {
	low, high, words, d, t := ZMM(), ZMM(), ZMM(), ZMM(), ZMM()
	var second Op = zero
	if first := (Mem{Base: w, Disp: f.bytes * at}); blocks == 4 {
		VMOVDQU32(first, low)
		second = first.Offset(quadSecond)
	} else {
		VMOVDQU8_Z(first, oneBlock, low)
	}
	VPERMW(low, quadWords, words)
	VCVTPH2PS(words.AsY(), d)
	VMULPS(scale, d, d)
	VPERMT2B(second, quadBytes, low)
	VPSRLW(Imm(4), low, high)
	VPANDD(quadNibbles, low, low)
	VPANDD(quadNibbles, high, high)
	VMOVDQA32(start, t)
	vpdpbusd(x[0], low, t)
	vpdpbusd(x[1], high, t)
	VCVTDQ2PS(t, t)
	VFMADD231PS(d, t, acc)
}

// dot writes the routine.
func (f blockQuad) dot() {
	f.routineVNNI(8, f.constants, func(r *byteRoutine, blocks int) {
		for at := 0; at < blocks; at += 4 {
			x, start, scale := f.activations(r.x, r.dx, at, min(blocks, 4))
			for i, w := range r.w {
				macro := fmt.Sprintf("DOT_Q4_0_VNNI_%d", min(blocks, 4))
				macroUse(macro, macro+" adds the products of a row's blocks, from an offset on, to its sum.",
					[]param{{"w", w}, {"at", f.bytes * at}, {"acc", r.acc[i]}},
					func() { f.add(w, at, min(blocks, 4), x, start, scale, r.acc[i]) })
			}
		}
	})
}
