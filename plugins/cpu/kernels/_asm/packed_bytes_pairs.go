package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// blockPair writes the product of blocks of q8_0 and a vector of bytes, for AVX-512 with VNNI. A vector holds two
// blocks. The product is as fast as memory can be read, if enough reads are in flight. Two things help: few
// instructions for a block, since a processor looks only a few hundred of them ahead, and no reads from tables, since
// these take the place of weights in the first-level cache.
type blockPair struct{ integerFormat }

// The constants of a product, and the masks for half a vector.
var (
	pairExcess = Z31 // 0x80 for each byte: turns signed bytes into unsigned ones that are too large by this
	pairOrder8 = Z30 // repeats each of two floats eight times
	zero       = Z26

	lowerHalf, upperHalf = K1, K2
)

// constants loads the constants into registers.
func (f blockPair) constants() {
	VMOVDQU32(lanesConst("pairOrder8", 16, func(l int) uint32 { return uint32(l / 8) }), pairOrder8)
	VPBROADCASTD(bytesConst(0x80), pairExcess)
	halfMasks()
}

// halfMasks sets lowerHalf and upperHalf.
func halfMasks() {
	t := GP32()
	for k, bits := range [2]uint32{0x00ff, 0xff00} {
		MOVL(U32(bits), t)
		KMOVW(t, []Register{lowerHalf, upperHalf}[k])
	}
}

// integers loads one block, or two, as unsigned bytes.
func (f blockPair) integers(w Register, blocks int) VecVirtual {
	u := ZMM()
	VMOVDQU32(Mem{Base: w, Disp: 2}, u.AsY())
	if blocks == 2 {
		VINSERTI32X8(Imm(1), Mem{Base: w, Disp: 2 + f.bytes}, u, u)
	}
	VPXORD(pairExcess, u, u)
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

// activations loads the activations of one block, or two, and their scales. With one block, the upper halves are 0.
// Sums of products start with start, because the integers are too large.
func (f blockPair) activations(px, dx Register, blocks int) (x, start, scale VecVirtual) {
	x, start, scale = ZMM(), ZMM(), ZMM()
	if blocks == 2 {
		VMOVDQU32(Mem{Base: px}, x)
		VBROADCASTSD(Mem{Base: dx}, scale)
		VPERMPS(scale, pairOrder8, scale)
	} else {
		VMOVDQU32_Z(Mem{Base: px}, lowerHalf, x)
		VBROADCASTSS_Z(Mem{Base: dx}, lowerHalf, scale)
	}
	negativeSums(pairExcess, start, x)
	return x, start, scale
}

// dot writes the routine.
func (f blockPair) dot() {
	f.routineVNNI(2, f.constants, func(r *byteRoutine, blocks int) {
		x, start, scale := f.activations(r.x, r.dx, blocks)
		for i, w := range r.w {
			macro := fmt.Sprintf("DOT_Q8_0_VNNI_%d", blocks)
			macroUse(macro, macro+" adds the products of a row's blocks to its sum.", []param{{"w", w}, {"acc", r.acc[i]}},
				func() {
					u, d, t := f.integers(w, blocks), f.scales(w, blocks), ZMM()
					VMOVDQA32(start, t)
					vpdpbusd(x, u, t)
					VCVTDQ2PS(t, t)
					VMULPS(d, scale, d)
					VFMADD231PS(d, t, r.acc[i])
				})
		}
	})
}

// byteRoutine holds what a loop over blocks reads and adds to.
type byteRoutine struct {
	w streams
	// the activations of the blocks, their scales and, for formats with lows, their sums
	x, dx, xs Register
	acc       [dotStreams]VecVirtual // the sum of each row
}

// routineVNNI writes the product of a matrix of weights and a vector of bytes, for AVX-512 with VNNI. constants loads
// registers. step writes the code for `unroll` blocks, or for one of those that are left over at the end of a row.
func (f integerFormat) routineVNNI(unroll int, constants func(), step func(r *byteRoutine, blocks int)) {
	name := "dotBytes" + f.name + "VNNI"
	TEXT(name, NOSPLIT, "func("+fmt.Sprintf(dotArgs, "*byte")+byteArgs)
	Doc(append([]string{name + dotDoc}, byteDoc...)...)
	Pragma("noescape")
	n, ahead := GP64(), prefetchAhead()
	r := &byteRoutine{w: gp64s(), x: GP64(), dx: GP64(), xs: GP64()}
	for i := range r.acc {
		r.acc[i] = ZMM()
	}
	constants()
	VPXORD(zero, zero, zero)
	Label("row")
	r.w.start(r.x)
	MOVQ(arg("blocks"), n)
	MOVQ(arg("x"), r.x)
	MOVQ(arg("dx"), r.dx)
	if f.lows {
		MOVQ(arg("xs"), r.xs)
	}
	for _, a := range r.acc {
		VMOVDQA32(zero, a)
	}
	unrolled(n, unroll, func(blocks int) {
		step(r, blocks)
		r.w.prefetch(blocks*f.bytes, ahead)
		r.w.advance(blocks * f.bytes)
		ADDQ(U32(uint32(blocks*f.values)), r.x)
		ADDQ(U32(uint32(blocks*f.values/8)), r.dx)
		if f.lows {
			ADDQ(U32(uint32(blocks*f.values/f.group*4)), r.xs)
		}
	})
	var sums [dotStreams]Register
	for i, a := range r.acc {
		sums[i] = vec{16, "AVX512"}.lane(a).AsX()
	}
	r.w.end(sums, r.dx, r.x)
}
