package main

import (
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// genCast writes the conversions between f32 and integers of up to 32 bits, for whole vectors only.
func genCast(v vec) {
	v.cast("f32", "i32", 4, 4, func(src, dst Mem) { VMOVUPS(v.truncated(src), dst) })
	v.cast("f32", "i8", 4, 1, func(src, dst Mem) { v.storeBytes(v.truncated(src), dst, true) })
	v.cast("f32", "u8", 4, 1, func(src, dst Mem) { v.storeBytes(v.truncated(src), dst, false) })
	v.cast("f32", "bool", 4, 1, func(src, dst Mem) {
		x := v.reg()
		VMOVUPS(src, x)
		v.storeTruth(cmpNE, x, v.zero(), bitsConst(0x01010101), dst.Base)
	})
	v.cast("i32", "f32", 4, 4, func(src, dst Mem) {
		y := v.reg()
		VCVTDQ2PS(src, y)
		VMOVUPS(y, dst)
	})
	for _, from := range []struct {
		name  string
		widen func(...Op)
	}{{"i8", VPMOVSXBD}, {"u8", VPMOVZXBD}, {"bool", VPMOVZXBD}} {
		if from.name != "bool" {
			v.affine(from.name, from.widen)
		}
		v.cast(from.name, "f32", 1, 4, func(src, dst Mem) {
			x := v.reg()
			from.widen(src, x)
			if from.name == "bool" {
				VPMINUD(bitsConst(1), x, x)
			}
			VCVTDQ2PS(x, x)
			VMOVUPS(x, dst)
		})
	}
}

// affine writes the routine that computes (x - zero) * scale of 8-bit integers.
func (v vec) affine(from string, widen func(...Op)) {
	name := "affine" + strings.ToUpper(from) + v.name
	TEXT(name, NOSPLIT, "func(dst *float32, x *uint8, zero, scale *float32, blocks int)")
	Doc(name + " is dst = (x - zero) * scale over blocks*lanes elements, x of " + from + "; blocks > 0.")
	Pragma("noescape")
	dst, x, n := Load(Param("dst"), GP64()), Load(Param("x"), GP64()), Load(Param("blocks"), GP64())
	zero, scale := Load(Param("zero"), GP64()), Load(Param("scale"), GP64())
	i := GP64()
	XORQ(i, i)
	Label("loop")
	y := v.reg()
	widen(Mem{Base: x}, y)
	VCVTDQ2PS(y, y)
	VSUBPS(Mem{Base: zero, Index: i, Scale: 1}, y, y)
	VMULPS(Mem{Base: scale, Index: i, Scale: 1}, y, y)
	VMOVUPS(y, Mem{Base: dst, Index: i, Scale: 1})
	ADDQ(Imm(uint64(v.lanes)), x)
	ADDQ(Imm(uint64(v.bytes())), i)
	DECQ(n)
	JNE(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// cast writes a conversion. Sizes of elements are in bytes.
func (v vec) cast(from, to string, fromSize, toSize int, f func(src, dst Mem)) {
	function := from + "_" + to
	name := symbol(function) + "Cast" + v.name
	entries = append(entries, entry{"cast", v.name, function, name})
	TEXT(name, NOSPLIT, "func(dst, src *uint8, blocks int)")
	Doc(name + " converts blocks*lanes elements of " + from + " to " + to + "; blocks > 0.")
	Pragma("noescape")
	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	n := Load(Param("blocks"), GP64())
	Label("loop")
	f(Mem{Base: src}, Mem{Base: dst})
	ADDQ(Imm(uint64(fromSize*v.lanes)), src)
	ADDQ(Imm(uint64(toSize*v.lanes)), dst)
	DECQ(n)
	JNE(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// truncated converts floats to i32: it rounds towards zero and saturates; NaN becomes 0. The instruction returns the
// least integer for numbers out of range. That is right below the range; above it, all bits are flipped.
func (v vec) truncated(src Mem) VecVirtual {
	const limit = 0x4f000000 // 2^31
	x, y := v.reg(), v.reg()
	VMOVUPS(src, x)
	VCVTTPS2DQ(x, y)
	if v.wide() {
		above, number := K(), K()
		VCMPPS(Imm(cmpGE), bitsConst(limit), x, above)
		VCMPPS(Imm(cmpOrdered), x, x, number)
		VPXORD(bitsConst(0xffffffff), y, above, y)
		VMOVDQA32_Z(y, number, y)
		return y
	}
	above, number := v.reg(), v.reg()
	VCMPPS(Imm(cmpGE), bitsConst(limit), x, above)
	VCMPPS(Imm(cmpOrdered), x, x, number)
	v.xor(above, y, y)
	v.and(number, y, y)
	return y
}

// cmpOrdered is true if neither operand is NaN.
const cmpOrdered = 7

// storeBytes stores i32 saturated to i8 or u8.
func (v vec) storeBytes(x VecVirtual, dst Mem, signed bool) {
	if v.wide() {
		if signed {
			VPMOVSDB(x, dst)
			return
		}
		VPMAXSD(v.zero(), x, x)
		VPMOVUSDB(x, dst)
		return
	}
	high, bytes := XMM(), XMM()
	VEXTRACTI128(Imm(1), x, high)
	VPACKSSDW(high, x.AsX(), bytes)
	if signed {
		VPACKSSWB(bytes, bytes, bytes)
	} else {
		VPACKUSWB(bytes, bytes, bytes)
	}
	VMOVQ(bytes, dst)
}
