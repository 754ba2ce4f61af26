package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// genQuads writes products of 8-bit integers: C[rows, n] = A·B for n = 2*lanes. Operands are packed as for genGemm,
// with units of 32 bits in place of floats. A unit has two integers of 16 bits, or four of 8 bits. Of the latter, one
// operand is unsigned and the other one signed.
func genQuads(v vec) {
	maxRows, last := 6, 16
	if v.wide() {
		maxRows, last = 14, 32
	}
	halves := func(disp int, x VecPhysical, b, sums []VecPhysical) {
		y := v.phys(last - 3)
		if x == y {
			y = v.phys(last - 4)
		}
		macro("HALVES", append([]any{disp, x.Asm(), y.Asm()}, names(b, sums)...)...)
	}
	for rows := 1; rows <= maxRows; rows++ {
		quadProduct(v, rows, fmt.Sprintf("halves%dx%d%s", rows, 2*v.lanes, v.name), halves)
		for _, side := range []string{"Left", "Right"} { // the operand that is unsigned
			if v.wide() {
				quadProduct(v, rows, fmt.Sprintf("quads%s%dx%d", side, rows, 2*v.lanes),
					func(disp int, x VecPhysical, b, sums []VecPhysical) {
						macro("QUADS_"+strings.ToUpper(side), append([]any{disp, x.Asm()}, names(b, sums)...)...)
					})
			}
		}
	}
	if v.wide() {
		for _, rows := range []int{16, 32} {
			quadTiles(rows, "Left", "TDPBUSD")
			quadTiles(rows, "Right", "TDPBSUD")
		}
	}
	requantize(v)
	if !v.wide() {
		pairBytes()
	}
}

// pairBytes writes the routine that widens 8-bit integers of two arrays and interleaves them. Both sets use it.
func pairBytes() {
	const block = 16 // elements
	TEXT("pairBytes", NOSPLIT, "func(dst *int16, a, b *uint8, blocks int, high uint32)")
	Doc(
		"pairBytes sets dst[2*i] = a[i], dst[2*i+1] = b[i] for i < 16*blocks, unsigned if high is 0, signed if it is 0x00800080. blocks > 0.")
	Pragma("noescape")
	dst, blocks := Load(Param("dst"), GP64()), Load(Param("blocks"), GP64())
	src := []Register{Load(Param("a"), GP64()), Load(Param("b"), GP64())}
	high := YMM()
	VBROADCASTSS(arg("high"), high)
	Label("loop")
	x := []VecVirtual{YMM(), YMM()}
	for i := range x {
		VPMOVZXBW(Mem{Base: src[i]}, x[i])
		VPXOR(high, x[i], x[i])
		VPSUBW(high, x[i], x[i])
		ADDQ(Imm(block), src[i])
	}
	lo, hi, y := YMM(), YMM(), YMM()
	VPUNPCKLWD(x[1], x[0], lo)
	VPUNPCKHWD(x[1], x[0], hi)
	VPERM2I128(Imm(0x20), hi, lo, y)
	VMOVDQU(y, Mem{Base: dst})
	VPERM2I128(Imm(0x31), hi, lo, y)
	VMOVDQU(y, Mem{Base: dst, Disp: 32})
	ADDQ(Imm(4*block), dst)
	DECQ(blocks)
	JNE(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// quadTiles writes the product of a block of rows, which are not packed, and panels of 32 columns, in tiles.
func quadTiles(rows int, unsigned, instruction string) {
	name := fmt.Sprintf("quadTiles%s%d", unsigned, rows)
	TEXT(
		name, NOSPLIT,
		"func(config *byte, steps int, a *float32, lda int, b *float32, bStep int, c *float32, ldc, panels int)")
	Doc(
		fmt.Sprintf(
			"%s sets C[%d, 32*panels] to A·B, as int32. A has rows of 16*steps units, lda apart. The panels of B are bStep apart.",
			name, rows),
		"steps, panels > 0.")
	Pragma("noescape")
	panels, b, bStep, lda, ldc := RAX, R9, R14, RCX, R8
	nextA, nextB, lowA, c, lowC, steps := RSI, RDX, R10, RDI, R11, R12
	MOVQ(arg("config"), R15)
	tileConfig(R15)
	for _, x := range []struct {
		name string
		r    GPPhysical
	}{{"lda", lda}, {"bStep", bStep}, {"ldc", ldc}} {
		MOVQ(arg(x.name), x.r)
		SHLQ(U8(2), x.r)
	}
	MOVQ(arg("b"), b)
	MOVQ(arg("c"), c)
	MOVQ(arg("panels"), panels)
	MOVQ(U32(128), RBX)
	Label("panel")
	for t := range tile(4) {
		tileZero(t)
	}
	MOVQ(arg("a"), nextA)
	MOVQ(lda, lowA)
	SHLQ(U8(4), lowA)
	ADDQ(nextA, lowA)
	MOVQ(b, nextB)
	MOVQ(arg("steps"), steps)
	Label("step")
	tileLoad(6, nextB, RBX, 0)
	tileLoad(4, nextA, lda, 0)
	tileLoad(7, nextB, RBX, 64)
	macro(instruction, tile(0), tile(4), tile(6))
	macro(instruction, tile(1), tile(4), tile(7))
	if rows == 32 {
		tileLoad(5, lowA, lda, 0)
		macro(instruction, tile(2), tile(5), tile(6))
		macro(instruction, tile(3), tile(5), tile(7))
		ADDQ(Imm(64), lowA)
	}
	ADDQ(Imm(64), nextA)
	ADDQ(U32(2048), nextB)
	DECQ(steps)
	JNE(LabelRef("step"))
	tileStore(c, ldc, 0, 0)
	tileStore(c, ldc, 64, 1)
	if rows == 32 {
		MOVQ(ldc, lowC)
		SHLQ(U8(4), lowC)
		ADDQ(c, lowC)
		tileStore(lowC, ldc, 0, 2)
		tileStore(lowC, ldc, 64, 3)
	}
	ADDQ(U32(128), c)
	ADDQ(bStep, b)
	DECQ(panels)
	JNE(LabelRef("panel"))
	tileRelease()
	RET()
}

// quadProduct writes one kernel.
func quadProduct(v vec, rows int, name string, row func(disp int, x VecPhysical, b, sums []VecPhysical)) {
	sums, _ := productSums(v, rows, 2, name, "func(k int, a, b, c *float32, ldc int)", packedRows(row))
	for _, s := range sums {
		macro("STORE_ROW2", append([]any{v.bytes()}, names(s)...)...)
	}
	VZEROUPPER()
	RET()
}

// requantize writes the routine that turns sums of products into 8-bit integers.
func requantize(v vec) {
	name := "requantize" + v.name
	var order Mem
	if !v.wide() { // the low bytes of the four lanes of each half
		order = numbers(
			"lowBytes", []uint32{0x0c080400, 0x80808080, 0x80808080, 0x80808080, 0x0c080400, 0x80808080, 0x80808080,
				0x80808080})
	}
	TEXT(
		name, NOSPLIT,
		"func(dst *uint8, acc, add *int32, mult *float32, blocks int, base int32, lo, hi float32, zero int32)")
	Doc(
		name+" sets dst[i] = zero + clamp(round((acc[i] + add[i] + base) * mult[i]), lo, hi), or 0 if the product is NaN,",
		"for i < blocks*lanes. blocks > 0.")
	Pragma("noescape")
	dst := Load(Param("dst"), GP64())
	acc := Load(Param("acc"), GP64())
	add := Load(Param("add"), GP64())
	mult := Load(Param("mult"), GP64())
	blocks := Load(Param("blocks"), GP64())
	base, lo, hi, zero := v.reg(), v.reg(), v.reg(), v.reg()
	VBROADCASTSS(arg("base"), base)
	VBROADCASTSS(arg("lo"), lo)
	VBROADCASTSS(arg("hi"), hi)
	VBROADCASTSS(arg("zero"), zero)
	var bytes VecVirtual
	if !v.wide() {
		bytes = v.load(order)
	}
	Label("loop")
	x := v.reg()
	VPADDD(Mem{Base: acc}, base, x)
	VPADDD(Mem{Base: add}, x, x)
	VCVTDQ2PS(x, x)
	VMULPS(Mem{Base: mult}, x, x)
	const ordered = 7
	y := v.reg()
	VMINPS(hi, x, y)
	VMAXPS(lo, y, y)
	VCVTPS2DQ(y, y)
	VPADDD(zero, y, y)
	if v.wide() {
		k := K()
		VCMPPS(Imm(ordered), x, x, k)
		VMOVDQU32_Z(y, k, y)
		VPMOVDB(y, Mem{Base: dst})
	} else {
		t := v.reg()
		VCMPPS(Imm(ordered), x, x, t)
		VPAND(t, y, y)
		VPSHUFB(bytes, y, y)
		h := XMM()
		VEXTRACTI128(Imm(1), y, h)
		VPUNPCKLDQ(h, y.AsX(), h)
		VMOVQ(h, Mem{Base: dst})
	}
	ADDQ(Imm(uint64(v.lanes)), dst)
	for _, p := range []Register{acc, add, mult} {
		ADDQ(Imm(uint64(v.bytes())), p)
	}
	DECQ(blocks)
	JNE(LabelRef("loop"))
	VZEROUPPER()
	RET()
}
