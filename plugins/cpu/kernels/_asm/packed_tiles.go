package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// genPackedTiles writes products of packed weights with floats. Each float is split into three bfloat16.
func genPackedTiles(v vec) {
	if !v.wide() {
		return
	}
	for _, group := range []int{32, 16} {
		splitRows(group)
		splitTiles(group, false)
		splitTiles(group, true)
	}
	widenPairs()
}

// splitParts is the number of bfloat16, with significands of 8 bits, that make a float32, with 24.
const splitParts = 3

// splitRows writes the routine that packs activations.
func splitRows(group int) {
	name := fmt.Sprintf("splitRows%d", group)
	TEXT(name, NOSPLIT, "func(dst, sums, src *float32, ld, rows, steps int) uint32")
	Doc(
		fmt.Sprintf(
			"%s splits rows of 32*steps floats, ld apart, into three bfloat16 each, the highest bits first. dst is [groups][3][16 rows][%d],",
			name, group),
		"sums is [groups][16 rows]. It returns the bits of the largest magnitude, or of a NaN. Denormals count as zero. 1 <= rows <= 16, steps > 0.")
	Pragma("noescape")
	dst, sums, src := Load(Param("dst"), GP64()), Load(Param("sums"), GP64()), Load(Param("src"), GP64())
	ld, rows := Load(Param("ld"), GP64()), Load(Param("rows"), GP64())
	from, to, total, n := GP64(), GP64(), GP64(), GP64()
	SHLQ(U8(2), ld)
	tileBytes := 32 * group // 16 rows of bfloat16
	VPBROADCASTD(bitsConst(0xffff0000), Z28)
	VPBROADCASTD(bitsConst(0x7fffffff), Z29)
	VPXORD(Z30, Z30, Z30)
	Label("row")
	MOVQ(src, from)
	MOVQ(dst, to)
	MOVQ(sums, total)
	MOVQ(arg("steps"), n)
	Label("step")
	x := []VecPhysical{Z0, Z1}
	for h, x := range x {
		VMOVUPS(Mem{Base: from, Disp: 64 * h}, x)
		VPANDD(Z29, x, Z2)
		VPMAXUD(Z2, Z30, Z30)
	}
	VADDPS(Z1, Z0, Z4)
	if group == 32 {
		t := v16.lane(moved(Z4))
		VMOVSS(t.AsX(), Mem{Base: total})
	} else {
		for h, x := range x {
			t := v16.lane(moved(x))
			VMOVSS(t.AsX(), Mem{Base: total, Disp: 64 * h})
		}
	}
	for part := range splitParts {
		high := []VecPhysical{Z2, Z3}
		if part == splitParts-1 {
			high = x
		} else {
			for h, x := range x {
				VPANDD(Z28, x, high[h]) // so that what is left has fewer bits, and is exact
				VSUBPS(high[h], x, x)
			}
		}
		toBF16(high[0], high[1], Z5)
		if group == 32 {
			VMOVUPS(Z5, Mem{Base: to, Disp: part * tileBytes})
		} else {
			VMOVUPS(Y5, Mem{Base: to, Disp: part * tileBytes})
			VEXTRACTI64X4(Imm(1), Z5, Mem{Base: to, Disp: (splitParts + part) * tileBytes})
		}
	}
	ADDQ(U32(128), from)
	ADDQ(U32(uint32(32/group*splitParts*tileBytes)), to)
	ADDQ(U32(uint32(32/group*64)), total)
	DECQ(n)
	JNE(LabelRef("step"))
	ADDQ(ld, src)
	ADDQ(U8(uint8(2*group)), dst)
	ADDQ(U8(4), sums)
	DECQ(rows)
	JNE(LabelRef("row"))
	VEXTRACTI64X4(Imm(1), Z30, Y0)
	VPMAXUD(Y0, Y30, Y0)
	bits := GP32()
	VMOVD(largestDword(Y0), bits)
	Store(bits, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

var v16 = vec{16, "AVX512"}

// moved is a copy of x.
func moved(x VecPhysical) VecVirtual {
	r := ZMM()
	VMOVAPS(x, r)
	return r
}

// widenPairs writes the routine that packs weights.
func widenPairs() {
	TEXT("widenPairs", NOSPLIT, "func(dst *float32, step int, src *float32, vectors, groups int)")
	Doc(
		"widenPairs converts groups of vectors of bytes [16][4] to bfloat16 [2][16][2]. Groups start step bytes apart in dst.",
		"vectors, groups > 0.")
	Pragma("noescape")
	group, step, src := Load(Param("dst"), GP64()), Load(Param("step"), GP64()), Load(Param("src"), GP64())
	groups := Load(Param("groups"), GP64())
	dst, n := GP64(), GP64()
	Label("group")
	MOVQ(group, dst)
	MOVQ(arg("vectors"), n)
	Label("vector")
	x := ZMM()
	VMOVDQU32(Mem{Base: src}, x)
	for pair := range 2 {
		low, high := ZMM(), ZMM()
		VPSLLD(Imm(uint64(24-16*pair)), x, low)
		VPSRAD(Imm(24), low, low)
		VCVTDQ2PS(low, low)
		VPSRLD(Imm(16), low, low)
		if pair == 0 {
			VPSLLD(Imm(16), x, high)
			VPSRAD(Imm(24), high, high)
		} else {
			VPSRAD(Imm(24), x, high)
		}
		VCVTDQ2PS(high, high) // the low half of the float is 0, because the integer has 8 bits
		VPORD(high, low, low)
		VMOVDQU32(low, Mem{Base: dst, Disp: 64 * pair})
	}
	ADDQ(U8(64), src)
	ADDQ(U32(128), dst)
	DECQ(n)
	JNE(LabelRef("vector"))
	ADDQ(step, group)
	DECQ(groups)
	JNE(LabelRef("group"))
	VZEROUPPER()
	RET()
}

// splitTiles writes the product. The activations of a group stay in three tiles, while panels of weights pass through
// two others in pairs: if another thread shares the core, loading a tile takes longer than a product. While tiles
// multiply a pair of panels, vector instructions scale the sums of the pair before.
func splitTiles(group int, lows bool) {
	name := fmt.Sprintf("splitTiles%d", group)
	if lows {
		name += "Low"
	}
	TEXT(
		name, NOSPLIT,
		"func(config, room *byte, pairs, groups int, a, sums, b, scale, low, c *float32, ldc, resume int)")
	minus := ""
	if lows {
		minus = " - low*sums"
	}
	Doc(name+" sets C, of 16 rows and pairs of panels of 16 columns, to the sum over groups of scale*(a·b)"+minus+".",
		fmt.Sprintf(
			"a is [groups][3][16 rows][%d] and b [groups][panels][%d][16 columns][2], both of bfloat16. sums is [groups][16 rows], scale and low are",
			group, group/2),
		"[groups][panels][16 columns]. ldc counts bytes. With resume, the sum is added to C. room has 2048*(pairs+1) bytes. pairs, groups > 0.")
	Pragma("noescape")
	a, b, scale, low, sums, room, c := RSI, RDX, R8, R9, R10, R11, RDI
	aStride, bStride, left, doneLeft, n, t := RCX, RBX, R13, R14, R12, RAX
	tileBytes := 32 * group
	MOVQ(arg("config"), t)
	tileConfig(t)
	MOVQ(arg("room"), room)
	LEAQ(Mem{Base: room, Disp: 2048}, c)

	// C is kept in blocks of 16 rows and columns.
	eachRow := func(label string, f func(row, block Mem)) {
		MOVQ(arg("c"), a)
		MOVQ(arg("ldc"), t)
		MOVQ(c, b)
		MOVQ(arg("pairs"), left)
		Label(label)
		for panel := range 2 {
			MOVQ(a, scale)
			for m := range 16 {
				macro := "ROW_" + strings.ToUpper(label)
				macroUse(macro, macro+" moves a row of one of two panels to or from its block.",
					[]param{{"from", 64 * panel}, {"to", 1024*panel + 64*m}}, func() {
						f(Mem{Base: scale, Disp: 64 * panel}, Mem{Base: b, Disp: 1024*panel + 64*m})
						ADDQ(t, scale)
					})
			}
		}
		ADDQ(U32(128), a)
		ADDQ(U32(2048), b)
		DECQ(left)
		JNE(LabelRef(label))
	}
	CMPQ(arg("resume"), Imm(0))
	JEQ(LabelRef("fresh"))
	eachRow("resumes", func(row, block Mem) {
		VMOVUPS(row, Z0)
		VMOVUPS(Z0, block)
	})
	JMP(LabelRef("begin"))
	Label("fresh")
	VPXORD(Z0, Z0, Z0)
	eachRow("clears", func(_, block Mem) { VMOVUPS(Z0, block) })
	Label("begin")

	MOVQ(arg("a"), a)
	MOVQ(arg("b"), b)
	MOVQ(arg("scale"), scale)
	if lows {
		MOVQ(arg("low"), low)
		MOVQ(arg("sums"), sums)
	}
	MOVQ(arg("groups"), n)
	MOVQ(arg("pairs"), doneLeft)
	INCQ(doneLeft) // at first there are no sums to scale
	MOVQ(U32(uint32(2*group)), aStride)
	MOVQ(U32(64), bStride)
	finish := func() {
		for h := range 2 {
			VMOVUPS(Mem{Base: scale, Disp: 64 * h}, Z30)
			if lows {
				VMOVUPS(Mem{Base: low, Disp: 64 * h}, Z31)
			}
			for m := range 16 {
				at := 1024*h + 64*m
				r := v16.phys(m % 8)
				macro := "SCALE_ROW"
				if lows {
					macro += "_LOW"
				}
				macroUse(macro, macro+" adds the scaled sums of a row of a group to C, whose block is at the same offset.",
					[]param{{"at", at}, {"row", m}, {"sum", r}}, func() {
						VMOVUPS(Mem{Base: c, Disp: at}, r)
						VFMADD231PS(Mem{Base: room, Disp: at}, Z30, r)
						if lows {
							VFNMADD231PS_BCST(Mem{Base: sums, Disp: 4 * m}, Z31, r)
						}
						VMOVUPS(r, Mem{Base: c, Disp: at})
					})
			}
		}
	}
	Label("group")
	for part := range tile(splitParts) {
		tileLoad(part, a, aStride, int(part)*tileBytes)
	}
	ADDQ(U32(uint32(splitParts*tileBytes)), a)
	MOVQ(a, t) // to prefetch the next group
	MOVQ(arg("pairs"), left)
	Label("pair")
	for h := range tile(2) {
		tileZero(3 + h)
		tileLoad(6+h, b, bStride, int(h)*tileBytes)
	}
	for part := splitParts - 1; part >= 0; part-- { // the smallest first
		for h := range tile(2) {
			tileProduct(3+h, tile(part), 6+h)
		}
	}
	const ahead = 12 // lines
	for i := range ahead {
		PREFETCHT0(Mem{Base: t, Disp: 64 * i})
	}
	ADDQ(U32(64*ahead), t)
	ADDQ(U32(uint32(2*tileBytes)), b)
	CMPQ(doneLeft, arg("pairs"))
	JGT(LabelRef("first"))
	finish()
	ADDQ(U32(128), scale)
	if lows {
		ADDQ(U32(128), low)
	}
	ADDQ(U32(2048), c)
	Label("first")
	DECQ(doneLeft)
	JNE(LabelRef("same"))
	LEAQ(Mem{Base: room, Disp: 2048}, c)
	MOVQ(arg("pairs"), doneLeft)
	if lows {
		ADDQ(U32(64), sums)
	}
	Label("same")
	for h := range tile(2) {
		tileStore(room, bStride, 1024*int(h), 3+h)
	}
	DECQ(left)
	JNE(LabelRef("pair"))
	DECQ(n)
	JNE(LabelRef("group"))
	finish()
	tileRelease()
	LEAQ(Mem{Base: room, Disp: 2048}, c)
	eachRow("ends", func(row, block Mem) {
		VMOVUPS(block, Z0)
		VMOVUPS(Z0, row)
	})
	VZEROUPPER()
	RET()
}
