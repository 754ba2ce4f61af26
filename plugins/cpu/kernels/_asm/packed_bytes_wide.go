package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// wideBlock writes products of blocks of 256 values and a vector of bytes, for AVX-512 with VNNI. A vector holds 64 of
// the values. As in blockPair, the number of instructions matters more than what they do.
type wideBlock struct {
	integerFormat
	*byteRoutine
	scales [dotStreams]VecVirtual // of each row, multiplied by those of the activations
}

// wideBlocks holds the formats, with the function that loads constants into registers and the one that writes the
// product of a block.
var wideBlocks = map[string]struct{ constants, body func(*wideBlock) }{
	"Q4_K": {(*wideBlock).constants4_K, (*wideBlock).body4_K},
	"Q6_K": {(*wideBlock).constants6_K, (*wideBlock).body6_K},
}

// dot writes the routine.
func (b *wideBlock) dot() {
	own := wideBlocks[b.name]
	b.routineVNNI(1, func() { own.constants(b) }, func(r *byteRoutine, _ int) {
		b.byteRoutine = r
		own.body(b)
	})
}

// add adds the products of the unsigned bytes u and the activations x, plus start, to the sum of a row. order picks the
// scales.
func (b *wideBlock) add(row int, u, x, start, order Register) {
	t, s := ZMM(), ZMM()
	macroUse("ADD_WIDE", "ADD_WIDE adds the products of u and x, plus start, times scales, to the sum of a row.",
		[]param{{"u", u}, {"x", x}, {"start", start}, {"order", order}, {"scales", b.scales[row]}, {"acc", b.acc[row]},
			{"t", t}, {"s", s}}, func() {
			VMOVDQA32(start, t)
			vpdpbusd(x, u, t)
			VCVTDQ2PS(t, t)
			VPERMPS(b.scales[row], order, s)
			VFMADD231PS(s, t, b.acc[row])
		})
}

var wideOrders = []Register{Z21, Z20, Z19, Z18}

func (b *wideBlock) constants4_K() {
	VPBROADCASTD(bytesConst(0x0f), Z31)
	VPBROADCASTD(bytesConst(0xf0), Z30)
	VMOVUPS(dwords("sixteenthOdd", math.Float32bits(1), math.Float32bits(1.0/16)), Y29)
	VMOVDQU32(dwords("sixesShifts", 0, 0, 0, 4), X28)
	VMOVDQU32(dwords("sixesLow", 0x3f3f3f3f, 0x0f0f0f0f), X27)
	VMOVDQU32(dwords("sixesHigh", 0, 0x30303030), X25)
	for i, r := range wideOrders {
		VMOVUPS(lanesConst(fmt.Sprint("groupOrder", i), 16, func(l int) uint32 { return uint32(i/2*4 + i%2 + l/8*2) }),
			r)
	}
	halfMasks()
}

// sixes returns the scales of a block of q4_K, and in the upper half of the vector its minimums. Dwords 1 to 3 hold
// them in 6 bits each (see packedBlock.sixes), dword 0 the factors of both, as f16.
func (b *wideBlock) sixes(w Register) VecVirtual {
	raw, bits, upper, factor, s := XMM(), XMM(), XMM(), ZMM(), ZMM()
	VMOVDQU32(Mem{Base: w}, raw)
	VPSHUFD(Imm(0xed), raw, bits) // dwords 1 3 2 3
	VPSRLVD(X28, bits, bits)
	VPANDD(X27, bits, bits)
	VPSHUFD(Imm(0x84), raw, upper) // dwords 0 1 0 2
	VPSRLD(Imm(2), upper, upper)
	VPTERNLOGD(Imm(0xf8), X25, upper, bits) // bits | upper & X25
	VPMOVZXBD(bits, s)
	VCVTDQ2PS(s, s)
	VCVTPH2PS(raw, raw)
	VBROADCASTSS(raw, factor)
	VPSRLDQ(Imm(4), raw, raw)
	VBROADCASTSS(raw, upperHalf, factor)
	VMULPS(factor, s, s)
	return s
}

// body4_K reads 128 values at a time, four groups of 32. Low nibbles are the values of the first and the third group.
// High nibbles, those of the others, stay in place, as 16 times their value. The scale of their activations is divided
// by 16.
func (b *wideBlock) body4_K() {
	x := ZMM() // the scales of the activations, and in the upper half their sums
	VMOVUPS_Z(Mem{Base: b.xs, Disp: -32}, upperHalf, x)
	VMULPS(Mem{Base: b.dx}, Z29, lowerHalf, x)
	for row, w := range b.w {
		macroUse("SCALES_Q4_K_VNNI",
			"SCALES_Q4_K_VNNI sets s to the scales of a row's block and subtracts its minimums from acc.",
			[]param{{"w", w}, {"s", &b.scales[row]}, {"acc", b.acc[row]}}, func() {
				s := b.sixes(w)
				VMULPS(x, s, s)
				VSUBPS(s, b.acc[row], upperHalf, b.acc[row])
				b.scales[row] = s
			})
	}
	for half := range 2 {
		var x, pair [2]VecVirtual // x: the activations of low and of high nibbles
		for i := range pair {
			x[i], pair[i] = ZMM(), ZMM()
			VMOVDQU32(Mem{Base: b.x, Disp: 128*half + 64*i}, pair[i])
		}
		VSHUFI64X2(Imm(0x44), pair[1], pair[0], x[0]) // the lower halves
		VSHUFI64X2(Imm(0xee), pair[1], pair[0], x[1]) // the upper halves
		for row, w := range b.w {
			q := ZMM()
			VMOVDQU32(Mem{Base: w, Disp: 16 + 64*half}, q)
			for i, mask := range []Register{Z31, Z30} {
				u := ZMM()
				VPANDD(mask, q, u)
				b.add(row, u, x[i], zero, wideOrders[2*half+i])
			}
		}
	}
}

func (b *wideBlock) constants6_K() {
	VPBROADCASTD(bytesConst(0x0f), Z31)
	VPBROADCASTD(bytesConst(0x3f), Z30)
	VPBROADCASTD(bytesConst(32), Z29)
	VMOVUPS(halfTable("leftShifts", 0x00040004, 0x00020002), Z28)
	VMOVUPS(halfTable("rightShifts", 0, 0x00020002), Z27)
	for i, r := range wideOrders {
		VMOVUPS(fourfold(i), r)
	}
}

// body6_K reads 128 values at a time. The low four bits of the first 64 are low nibbles, those of the others high
// nibbles of the same bytes. The upper two bits of all are in 32 bytes: those of values 0 to 31 lowest.
func (b *wideBlock) body6_K() {
	dx := ZMM()
	VPMOVZXDQ(Mem{Base: b.dx}, dx) // each scale twice: the activations have one for 32 values
	VMOVSLDUP(dx, dx)
	for row, w := range b.w {
		s, d := ZMM(), ZMM()
		macroUse("SCALES_Q6_K_VNNI", "SCALES_Q6_K_VNNI sets s to the scales of a row's block.",
			[]param{{"w", w}, {"s", s}, {"d", d}}, func() {
				VPBROADCASTW(Mem{Base: w, Disp: 208}, d.AsY())
				VCVTPH2PS(d.AsY(), d)
				VPMOVSXBD(Mem{Base: w, Disp: 192}, s)
				VCVTDQ2PS(s, s)
				VMULPS(d, s, s)
				VMULPS(dx, s, s)
			})
		b.scales[row] = s
	}
	for half := range 2 {
		var x, start [2]VecVirtual // the activations of low and of high nibbles; -32 times sums of four
		for i := range x {
			x[i], start[i] = ZMM(), ZMM()
			VMOVDQU32(Mem{Base: b.x, Disp: 128*half + 64*i}, x[i])
			negativeSums(Z29, start[i], x[i])
		}
		for row, w := range b.w {
			upper, nibbles := ZMM(), ZMM()
			VBROADCASTI64X4(Mem{Base: w, Disp: 128 + 32*half}, upper)
			VMOVDQU32(Mem{Base: w, Disp: 64 * half}, nibbles)
			for i := range x {
				u := ZMM()
				if i == 0 {
					VPSLLVW(Z28, upper, u)
				} else {
					VPSRLVW(Z27, upper, u)
					VPSRLW(Imm(4), nibbles, nibbles)
				}
				VPTERNLOGD(Imm(0xd8), Z31, nibbles, u) // bits of Z31 from nibbles, others from u
				VPANDD(Z30, u, u)
				b.add(row, u, x[i], start[i], wideOrders[2*half+i])
			}
		}
	}
}

// negativeSums sets each dword of sums to minus the sum of four bytes of each x, each byte multiplied by one of
// factors. Sums of products with integers that are too large by these factors start with it.
func negativeSums(factors Register, sums VecVirtual, x ...VecVirtual) {
	t := ZMM()
	VMOVDQA32(zero, t)
	for _, x := range x {
		vpdpbusd(x, factors, t)
	}
	VPSUBD(t, zero, sums)
}
