package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// blockPair writes the product of a matrix of weights in blocks of 32 values and a vector of bytes, for AVX-512 with VNNI. A vector holds two
// blocks. The product is as fast as memory can be read, if enough reads are in flight. Two things help: few instructions for a block, since a
// processor looks only a few hundred of them ahead, and no reads from tables, since these take the place of weights in the first-level cache.
type blockPair struct {
	integerFormat
	nibbles bool // the integers have four bits: a byte has that of value i and that of value i+16. Otherwise they are signed bytes
}

// The constants of a product, and the masks for half a vector.
var (
	pairBits   = Z31 // nibbles: masks of the low and the high nibbles; otherwise 0x80 for each byte
	pairOrder8 = Z30 // repeats each of two floats eight times
	pairShifts = Z29
	pairScales = Z28

	lowerHalf, upperHalf = K1, K2
)

// byPart returns a constant of 16 dwords: low for the values 0 to 15 of each block, and high for the others.
func byPart(name string, low, high uint32) Mem {
	return lanesConst(name, 16, func(l int) uint32 { return []uint32{low, high}[l/4%2] })
}

// constants loads the constants into registers.
func (f blockPair) constants() {
	VMOVDQU32(lanesConst("pairOrder8", 16, func(l int) uint32 { return uint32(l / 8) }), pairOrder8)
	if f.nibbles {
		VMOVDQU32(byPart("pairMasks", 0x0f0f0f0f, 0xf0f0f0f0), pairBits)
		VMOVDQU32(byPart("pairShifts", 0, 4), pairShifts)
		VMOVUPS(byPart("pairScales", math.Float32bits(1), math.Float32bits(1.0/16)), pairScales)
	} else {
		VPBROADCASTD(bytesConst(0x80), pairBits)
	}
	t := GP32()
	for k, bits := range [2]uint32{0x00ff, 0xff00} {
		MOVL(U32(bits), t)
		KMOVW(t, []Register{lowerHalf, upperHalf}[k])
	}
}

// integers loads one block, or two, as unsigned bytes.
func (f blockPair) integers(w Register, blocks int) VecVirtual {
	u, second := ZMM(), Mem{Base: w, Disp: 2 + f.bytes}
	if f.nibbles { // high nibbles stay in place, as 16 times their value
		VBROADCASTI32X4(Mem{Base: w, Disp: 2}, u)
		if blocks == 2 {
			VBROADCASTI32X4(second, upperHalf, u)
		}
		VPANDD(pairBits, u, u)
		return u
	}
	VMOVDQU32(Mem{Base: w, Disp: 2}, u.AsY())
	if blocks == 2 {
		VINSERTI32X8(Imm(1), second, u, u)
	}
	VPXORD(pairBits, u, u)
	return u
}

// scales loads the f16 at byte 0 of each block, as 8 floats each.
func (f blockPair) scales(w Register, blocks int) VecVirtual {
	h, d := YMM(), ZMM()
	if blocks == 2 {
		VPBROADCASTW(Mem{Base: w}, h)
		VPBROADCASTW(Mem{Base: w, Disp: f.bytes}, upperHalf, h)
	} else {
		VPBROADCASTW_Z(Mem{Base: w}, lowerHalf, h)
	}
	VCVTPH2PS(h, d)
	return d
}

// activations loads the activations of one block, or two, their excess and their scales. With one block, the upper halves are 0.
func (f blockPair) activations(px, products, dx Register, blocks int) (x, excess, scale VecVirtual) {
	x, excess, scale = ZMM(), ZMM(), ZMM()
	if blocks == 2 {
		VMOVDQU32(Mem{Base: px}, x)
		VMOVDQU32(Mem{Base: products}, excess)
		VBROADCASTSD(Mem{Base: dx}, scale)
		VPERMPS(scale, pairOrder8, scale)
	} else {
		VMOVDQU32_Z(Mem{Base: px}, lowerHalf, x)
		VMOVDQU32_Z(Mem{Base: products}, lowerHalf, excess)
		VBROADCASTSS_Z(Mem{Base: dx}, lowerHalf, scale)
	}
	if f.nibbles { // for high nibbles, excess is multiplied by 16 and the scale divided by 16
		VPSLLVD(pairShifts, excess, excess)
		VMULPS(pairScales, scale, scale)
	}
	return x, excess, scale
}

// dot writes the routine.
func (f blockPair) dot() {
	name := "dotBytes" + f.name + "VNNI"
	TEXT(name, NOSPLIT, "func("+fmt.Sprintf(dotArgs, "*byte")+byteArgs)
	Doc(append([]string{name + dotDoc}, byteDoc...)...)
	Pragma("noescape")
	n, ahead, w := GP64(), prefetchAhead(), gp64s()
	px, products, dx := GP64(), GP64(), GP64()
	var acc [dotStreams]VecVirtual
	for i := range acc {
		acc[i] = ZMM()
	}
	f.constants()
	Label("row")
	w.start(px)
	MOVQ(arg("blocks"), n)
	MOVQ(arg("x"), px)
	MOVQ(arg("dx"), dx)
	MOVQ(arg("excess"), products)
	for _, a := range acc {
		VPXORD(a, a, a)
	}
	unrolled(n, 2, func(blocks int) {
		x, excess, scale := f.activations(px, products, dx, blocks)
		for i, r := range w {
			u, d, t := f.integers(r, blocks), f.scales(r, blocks), ZMM()
			VMOVDQA32(excess, t)
			vpdpbusd(x, u, t)
			VCVTDQ2PS(t, t)
			VMULPS(d, scale, d)
			VFMADD231PS(d, t, acc[i])
		}
		w.prefetch(blocks*f.bytes, ahead)
		w.advance(blocks * f.bytes)
		ADDQ(U32(uint32(blocks*f.values)), px)
		ADDQ(U32(uint32(blocks*f.values)), products)
		ADDQ(U32(uint32(blocks*4)), dx)
	})
	var sums [dotStreams]Register
	for i, a := range acc {
		sums[i] = vec{16, "AVX512"}.lane(a).AsX()
	}
	w.end(sums, dx, px)
}
