package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// genParts writes the routines that divide floats into three bfloat16, and pack bfloat16 for products in tiles.
func genParts(v vec) {
	if !v.wide() {
		return
	}
	partsRows()
	partsPairs()
	halvesPairs()
	largestHalf()
}

// largest stores the largest of the dwords of x as the result.
func largest(x VecPhysical, f func(y VecPhysical) Op) {
	VEXTRACTI64X4(Imm(1), x, Y0)
	VPMAXUD(Y0, x.AsY().(VecPhysical), Y0)
	bits := GP32()
	VMOVD(f(Y0), bits)
	Store(bits, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// firstPart sets high to x rounded to bfloat16, half away from zero, and subtracts it from x, which is exact.
// partConstants has loaded Z27 and Z28.
func firstPart(x, high VecPhysical) {
	VPADDD(Z27, x, high)
	VPANDD(Z28, high, high)
	VSUBPS(high, x, x)
}

func partConstants() {
	VPBROADCASTD(bitsConst(0x8000), Z27)
	VPBROADCASTD(bitsConst(0xffff0000), Z28)
	VPBROADCASTD(bitsConst(0x7fffffff), Z29)
	VPXORD(Z30, Z30, Z30)
}

func noteMagnitude(x, buf VecPhysical) {
	VPANDD(Z29, x, buf)
	VPMAXUD(buf, Z30, Z30)
}

// partsRows writes the routine for rows.
func partsRows() {
	TEXT("partsRows", NOSPLIT, "func(dst *float32, plane int, src *float32, ld, rows, steps int) uint32")
	Doc("partsRows divides rows of 32*steps floats into three bfloat16 each, the largest first. Planes for these are plane bytes apart. In a",
		"plane, rows are 64 bytes and steps 2048 bytes apart; in src, rows are ld bytes apart. It returns the bits of the largest magnitude.",
		"The values are finite, or the results arbitrary. rows, steps > 0.")
	Pragma("noescape")
	dst, src, ld := Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("ld"), GP64())
	plane, rows := Load(Param("plane"), GP64()), Load(Param("rows"), GP64())
	from, to, n := GP64(), GP64(), GP64()
	partConstants()
	Label("row")
	MOVQ(src, from)
	MOVQ(dst, to)
	MOVQ(arg("steps"), n)
	Label("step")
	x := []VecPhysical{Z0, Z1}
	for h, x := range x {
		VMOVUPS(Mem{Base: from, Disp: 64 * h}, x)
		noteMagnitude(x, Z2)
	}
	at := []Mem{{Base: to}, {Base: to, Index: plane, Scale: 1}, {Base: to, Index: plane, Scale: 2}}
	for part, m := range at {
		high := []VecPhysical{Z2, Z3}
		if part == len(at)-1 {
			high = x
		} else {
			for h, x := range x {
				firstPart(x, high[h])
			}
		}
		toBF16(high[0], high[1], Z5)
		VMOVUPS(Z5, m)
	}
	ADDQ(U32(128), from)
	ADDQ(U32(2048), to)
	DECQ(n)
	JNE(LabelRef("step"))
	ADDQ(ld, src)
	ADDQ(U8(64), dst)
	DECQ(rows)
	JNE(LabelRef("row"))
	largest(Z30, func(y VecPhysical) Op { return largestDword(y) })
}

// partsPairs writes the routine for columns.
func partsPairs() {
	TEXT("partsPairs", NOSPLIT, "func(dst *float32, plane int, src *float32, ld, pairs int) uint32")
	Doc("partsPairs divides 2*pairs rows of 32 floats into three bfloat16 each, the largest first. Planes for these are plane bytes apart; a plane",
		"is pairs of bfloat16 [pairs][32]. Rows of src are ld bytes apart. It returns the bits of the largest magnitude. The values are finite, or",
		"the results arbitrary. pairs > 0.")
	Pragma("noescape")
	dst, src, ld := Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("ld"), GP64())
	plane, n := Load(Param("plane"), GP64()), Load(Param("pairs"), GP64())
	partConstants()
	Label("pair")
	for h := range 2 {
		a, b := []VecPhysical{Z0, Z10}[h], []VecPhysical{Z1, Z11}[h]
		p, q := []VecPhysical{Z2, Z12}[h], []VecPhysical{Z3, Z13}[h]
		VMOVUPS(Mem{Base: src, Disp: 64 * h}, a)
		VMOVUPS(Mem{Base: src, Index: ld, Scale: 1, Disp: 64 * h}, b)
		noteMagnitude(a, p)
		noteMagnitude(b, q)
		at := []Mem{{Base: dst, Disp: 64 * h}, {Base: dst, Index: plane, Scale: 1, Disp: 64 * h},
			{Base: dst, Index: plane, Scale: 2, Disp: 64 * h}}
		for part, m := range at {
			if part == len(at)-1 {
				VPSRLD(Imm(16), a, p) // the low halves are zero
				VMOVAPS(b, q)
			} else {
				firstPart(a, p)
				firstPart(b, q)
				VPSRLD(Imm(16), p, p)
			}
			VPORD(p, q, p)
			VMOVUPS(p, m)
		}
	}
	ADDQ(ld, src)
	ADDQ(ld, src)
	ADDQ(U32(128), dst)
	DECQ(n)
	JNE(LabelRef("pair"))
	largest(Z30, func(y VecPhysical) Op { return largestDword(y) })
}

// halvesPairs writes the routine for columns of bfloat16.
func halvesPairs() {
	TEXT("halvesPairs", NOSPLIT, "func(dst *float32, src *uint16, ld, pairs int) uint32")
	Doc("halvesPairs packs 2*pairs rows of 32 bfloat16, which are ld bytes apart, as pairs [pairs][32]. It returns the bits of the largest",
		"magnitude, as those of a float32. pairs > 0.")
	Pragma("noescape")
	dst, src, ld := Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("ld"), GP64())
	n := Load(Param("pairs"), GP64())
	partConstants()
	Label("pair")
	for h := range 2 {
		a, b := []VecPhysical{Z0, Z10}[h], []VecPhysical{Z1, Z11}[h]
		VPMOVZXWD(Mem{Base: src, Disp: 32 * h}, a)
		VPMOVZXWD(Mem{Base: src, Index: ld, Scale: 1, Disp: 32 * h}, b)
		VPSLLD(Imm(16), b, b)
		noteMagnitude(b, Z3)
		VPSLLD(Imm(16), a, Z2)
		noteMagnitude(Z2, Z2)
		VPORD(a, b, a)
		VMOVUPS(a, Mem{Base: dst, Disp: 64 * h})
	}
	ADDQ(ld, src)
	ADDQ(ld, src)
	ADDQ(U32(128), dst)
	DECQ(n)
	JNE(LabelRef("pair"))
	largest(Z30, func(y VecPhysical) Op { return largestDword(y) })
}

// largestHalf writes the routine that finds the largest magnitude of pairs.
func largestHalf() {
	TEXT("largestHalf", NOSPLIT, "func(src *float32, vectors int) uint32")
	Doc(
		"largestHalf returns the bits of the largest magnitude of pairs of bfloat16, as those of a float32; vectors of 16 pairs, vectors > 0.")
	Pragma("noescape")
	src, n := Load(Param("src"), GP64()), Load(Param("vectors"), GP64())
	partConstants()
	Label("vector")
	VMOVUPS(Mem{Base: src}, Z0)
	VPSLLD(Imm(16), Z0, Z1)
	noteMagnitude(Z0, Z2) // the low half does not matter: it is removed at the end
	noteMagnitude(Z1, Z3)
	ADDQ(U8(64), src)
	DECQ(n)
	JNE(LabelRef("vector"))
	VPANDD(Z28, Z30, Z30)
	largest(Z30, func(y VecPhysical) Op { return largestDword(y) })
}
