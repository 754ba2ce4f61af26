package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// genQuads writes products of 8-bit integers: C[rows, n] = A·B for n = 2*lanes, packed as genGemm says, with units of 32 bits in place of
// floats. A unit is four integers of 8 bits, one of the operands unsigned and the other signed, or two of 16 bits.
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
				quadProduct(v, rows, fmt.Sprintf("quads%s%dx%d", side, rows, 2*v.lanes), func(disp int, x VecPhysical, b, sums []VecPhysical) {
					macro("QUADS_"+strings.ToUpper(side), append([]any{disp, x.Asm()}, names(b, sums)...)...)
				})
			}
		}
	}
	requantize(v)
}

// quadProduct writes one kernel.
func quadProduct(v vec, rows int, name string, row func(disp int, x VecPhysical, b, sums []VecPhysical)) {
	sums, _ := productSums(v, rows, 2, name, "func(k int, a, b, c *float32, ldc int)", row)
	for _, s := range sums {
		VMOVUPS(s[0], Mem{Base: productC})
		VMOVUPS(s[1], Mem{Base: productC, Disp: v.bytes()})
		ADDQ(productLdc, productC)
	}
	VZEROUPPER()
	RET()
}

// requantize finishes sums of products.
func requantize(v vec) {
	name := "requantize" + v.name
	var order Mem
	if !v.wide() { // the low bytes of the four lanes of each half
		order = numbers("lowBytes", []uint32{0x0c080400, 0x80808080, 0x80808080, 0x80808080, 0x0c080400, 0x80808080, 0x80808080, 0x80808080})
	}
	TEXT(name, NOSPLIT, "func(dst *uint8, acc, add *int32, mult *float32, blocks int, base int32, lo, hi float32, zero int32)")
	Doc(name+" is dst[i] = round((acc[i] + add[i] + base) * mult[i]), limited to lo and hi, + zero, for i < blocks*lanes, and 0 where the product is NaN;",
		"blocks > 0.")
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
