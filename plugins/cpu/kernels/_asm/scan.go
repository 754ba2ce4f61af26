package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// genScan writes running sums, products and maxima. A vector is first scanned by itself, in log2(lanes) steps: a step
// of distance k folds each lane with the lane k before it. Then all lanes are folded with the result of the vectors
// before. Only this last fold depends on the previous vector, so the processor overlaps the other steps of several
// vectors.
func genScan(v vec) {
	scanDoubles(v, "Sum", 0, VADDPD)
	scanDoubles(v, "Prod", 1, VMULPD)
	scanMax(v)
}

func scanRoutine(v vec, name, doc string) (dst, src, n Register) {
	name = "scan" + name + v.name
	TEXT(name, NOSPLIT, "func(dst, src *float32, blocks int, acc float64) float64")
	Doc(name + doc)
	Pragma("noescape")
	return Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("blocks"), GP64())
}

// scanDoubles writes a scan that folds in float64.
func scanDoubles(v vec, name string, start float64, fold func(...Op)) {
	dst, src, n := scanRoutine(
		v, name,
		" scans blocks*lanes/2 elements in float64, starting from acc, and returns the last result; blocks > 0.")
	acc, fill := v.reg(), v.reg()
	VBROADCASTSD(arg("acc"), acc)
	ones := v.load(f32(start))
	var last VecVirtual // the index of the last lane
	if v.wide() {
		VCVTPS2PD(ones.AsY(), fill)
		last = v.load(bitsConst(7))
	} else {
		VCVTPS2PD(ones.AsX(), fill)
	}
	Label("loop")
	x, t, y := v.reg(), v.reg(), v.reg()
	VCVTPS2PD(Mem{Base: src}, x)
	if v.wide() {
		for _, k := range []uint64{1, 2, 4} {
			VALIGNQ(Imm(8-k), fill, x, t)
			fold(t, x, x)
		}
		fold(x, acc, y)
		VCVTPD2PS(y, y.AsY())
		VMOVUPS(y.AsY(), Mem{Base: dst})
		VPERMPD(x, last, t)
	} else {
		VUNPCKLPD(x, fill, t)
		fold(t, x, x)
		VPERMPD(Imm(0x55), x, t)
		VBLENDPD(Imm(3), fill, t, t)
		fold(t, x, x)
		fold(x, acc, y)
		VCVTPD2PSY(y, y.AsX())
		VMOVUPS(y.AsX(), Mem{Base: dst})
		VPERMPD(Imm(0xff), x, t)
	}
	fold(t, acc, acc)
	ADDQ(Imm(uint64(v.bytes()/2)), src)
	ADDQ(Imm(uint64(v.bytes()/2)), dst)
	DECQ(n)
	JNE(LabelRef("loop"))
	VMOVSD(acc.AsX(), result())
	VZEROUPPER()
	RET()
}

// scanMax writes the running maximum, in float32. Of equal elements it keeps the first, of NaNs the last, as loops in
// Go do.
func scanMax(v vec) {
	dst, src, n := scanRoutine(
		v, "Max", " scans blocks*lanes elements, starting from acc, and returns the last result; blocks > 0.")
	acc, fill := v.reg(), v.load(f32(math.Inf(-1)))
	VCVTSD2SS(arg("acc"), acc.AsX(), acc.AsX())
	VBROADCASTSS(acc.AsX(), acc)
	larger := func(a, b Register) VecVirtual { // b if it is larger or NaN, else a
		m := v.reg()
		VMAXPS(a, b, m) // a if either is NaN, or both are equal
		return v.pick(cmpUnordered, b, b, b, m)
	}
	var last VecVirtual
	if v.wide() {
		last = v.load(bitsConst(15))
	}
	Label("loop")
	x, t := v.reg(), v.reg()
	VMOVUPS(Mem{Base: src}, x)
	if v.wide() {
		for _, k := range []uint64{1, 2, 4, 8} {
			VALIGND(Imm(16-k), fill, x, t)
			x = larger(t, x)
		}
		VPERMPS(x, last, t)
	} else {
		VPERMILPS(Imm(0x90), x, t)
		VBLENDPS(Imm(0x11), fill, t, t)
		x = larger(t, x)
		VPERMILPS(Imm(0x40), x, t)
		VBLENDPS(Imm(0x33), fill, t, t)
		x = larger(t, x)
		VPERMILPS(Imm(0xff), x, t)
		VPERM2F128(Imm(2), fill, t, t)
		x = larger(t, x)
		VPERMILPS(Imm(0xff), x, t)
		VPERM2F128(Imm(0x11), t, t, t)
	}
	VMOVUPS(larger(acc, x), Mem{Base: dst})
	VMOVUPS(larger(acc, t), acc)
	ADDQ(Imm(uint64(v.bytes())), src)
	ADDQ(Imm(uint64(v.bytes())), dst)
	DECQ(n)
	JNE(LabelRef("loop"))
	VCVTSS2SD(acc.AsX(), acc.AsX(), acc.AsX())
	VMOVSD(acc.AsX(), result())
	VZEROUPPER()
	RET()
}
