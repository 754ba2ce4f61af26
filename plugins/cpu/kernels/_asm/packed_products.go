package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// roundRow writes the routine that rounds activations to bytes.
func (v vec) roundRow() {
	name := "roundRow" + v.name
	TEXT(name, NOSPLIT, "func(q *int8, scale, sums, x *float32, groups int)")
	Doc(
		name + " rounds 32*groups activations as quant.RoundActivations does. sums[i] is the sum of q[16*i : 16*i+16]. groups > 0.")
	Pragma("noescape")
	q, scale, sums := Load(Param("q"), GP64()), Load(Param("scale"), GP64()), Load(Param("sums"), GP64())
	x, n := Load(Param("x"), GP64()), Load(Param("groups"), GP64())
	var in [4]VecVirtual
	count := 32 / v.lanes
	Label("group")
	most := v.reg()
	for i := range count {
		in[i] = v.reg()
		VMOVUPS(Mem{Base: x, Disp: i * v.bytes()}, in[i])
		a := v.reg()
		v.and(bitsConst(0x7fffffff), in[i], a)
		if i == 0 {
			most = a
		} else {
			VPMAXUD(a, most, most)
		}
	}
	if v.wide() {
		y := YMM()
		VEXTRACTI64X4(Imm(1), most, y)
		VPMAXUD(y, most.AsY(), y)
		most = y
	}
	m := largestDword(most)
	bits := GP32()
	VMOVD(m, bits)
	CMPL(bits, U32(0x7f800000))
	JCC(LabelRef("invalid"))
	CMPL(bits, U32(27<<23)) // 2^-100
	JCS(LabelRef("tiny"))
	d, inverse := XMM(), XMM()
	most127 := XMM()
	VMOVSS(f32(127), most127)
	VDIVSS(most127, m, d)
	VDIVSS(m, most127, inverse)
	VMOVSS(d, Mem{Base: scale})
	by := v.reg()
	VBROADCASTSS(inverse, by)
	for i := range count {
		VMULPS(by, in[i], in[i])
		VCVTPS2DQ(in[i], in[i])
	}
	for h := range 2 {
		f := v.reg()
		if v.wide() {
			VPMOVSDB(in[h], Mem{Base: q, Disp: 16 * h})
			VCVTDQ2PS(in[h], f)
		} else {
			g := v.reg()
			VCVTDQ2PS(in[2*h], f)
			VCVTDQ2PS(in[2*h+1], g)
			VADDPS(g, f, f)
		}
		VMOVSS(v.lane(f).AsX(), Mem{Base: sums, Disp: 4 * h})
	}
	if !v.wide() {
		VPACKSSDW(in[1], in[0], in[0]) // dwords 0 2 | 1 3 of each
		VPACKSSDW(in[3], in[2], in[2])
		VPACKSSWB(in[2], in[0], in[0]) // fours of bytes: 0 2 4 6 | 1 3 5 7
		order := YMM()
		VMOVDQU(packedOrder(), order)
		VPERMD(in[0], order, in[0])
		VMOVDQU(in[0], Mem{Base: q})
	}
	Label("next")
	ADDQ(Imm(128), x)
	ADDQ(Imm(32), q)
	ADDQ(Imm(4), scale)
	ADDQ(Imm(8), sums)
	DECQ(n)
	JNE(LabelRef("group"))
	VZEROUPPER()
	RET()
	Label("invalid")
	MOVL(U32(0x7fc00000), Mem{Base: scale})
	JMP(LabelRef("nothing"))
	Label("tiny")
	MOVL(U32(0), Mem{Base: scale})
	Label("nothing")
	zero := YMM()
	VPXOR(zero, zero, zero)
	VMOVDQU(zero, Mem{Base: q})
	VMOVQ(zero.AsX(), Mem{Base: sums})
	JMP(LabelRef("next"))
}

var order Mem

func packedOrder() Mem {
	if order.Base == nil {
		order = GLOBL("packedOrder", 8|16)
		for i := range 8 {
			DATA(4*i, U32(uint32([]int{0, 4, 1, 5, 2, 6, 3, 7}[i])))
		}
	}
	return order
}

const integerArgs = "groups, step int, a, b *int8, dx, xs, dw, low, c *float32, ldc, resume int"

// integerDoc writes the comment of a product. last is its last line.
func integerDoc(name string, lows bool, last string) {
	minus := ""
	if lows {
		minus = " - xs*low"
	}
	Doc(name+" sets C, of 16 rows and 16 columns, to the sum over groups of dx*dw*(a·b)"+minus+".",
		"a is [groups][16 rows][step/16], b [groups][step/64][16 columns][4]. dx and xs are [groups][16 rows], dw and low [groups][16 columns].",
		last+" With resume, the result is added to C. groups > 0.")
}

// integerTiles writes a product of 16 rows and 16 columns in tiles. While vector instructions scale the sums of a
// group, tiles multiply the next group.
func integerTiles(lows bool) {
	name := "integerTiles"
	if lows {
		name += "Low"
	}
	TEXT(name, NOSPLIT, "func(config, room *byte, lda, stepA int, ahead *byte, lines, groupsAhead, skip int, "+
		integerArgs+")")
	integerDoc(name, lows, "Here rows of a are lda bytes apart, and groups stepA bytes. "+
		"In config, the tile of b has step/64 rows. room has 2048 bytes. "+
		"With each group, the next lines of ahead are prefetched. After groupsAhead groups, skip bytes are left out.")
	Pragma("noescape")
	MOVQ(arg("config"), RAX)
	tileConfig(RAX)
	a, b, dx, dw, room, n, line, done := RSI, RDX, R8, R9, R10, R11, R12, R15
	aStride, bStride := RCX, RBX
	ahead, groupsAhead := RAX, R14 // once startIntegers has used them
	MOVQ(arg("a"), a)
	MOVQ(arg("b"), b)
	MOVQ(arg("dx"), dx)
	MOVQ(arg("dw"), dw)
	MOVQ(arg("room"), room)
	LEAQ(Mem{Base: room, Disp: 1024}, done)
	MOVQ(arg("groups"), n)
	MOVQ(arg("lda"), aStride)
	MOVQ(U32(64), bStride)
	xs, low := R13, RDI
	if lows {
		MOVQ(arg("xs"), xs)
		MOVQ(arg("low"), low)
	}
	acc := func(m int) VecPhysical { return vec{16, ""}.phys(m) }
	startIntegers(acc)
	multiply := func() {
		tileZero(0)
		tileLoad(1, a, aStride, 0)
		tileLoad(2, b, bStride, 0)
		macro("TDPBSSD", tile(0), tile(1), tile(2))
		tileStore(room, bStride, 0, 0)
		ADDQ(arg("stepA"), a)
		ADDQ(arg("step"), b)
	}
	MOVQ(arg("ahead"), ahead)
	MOVQ(arg("groupsAhead"), groupsAhead)
	multiply()
	Label("group")
	XCHGQ(room, done)
	MOVQ(arg("lines"), line)
	TESTQ(line, line)
	JEQ(LabelRef("prefetched"))
	Label("line")
	PREFETCHT1(Mem{Base: ahead})
	ADDQ(Imm(64), ahead)
	DECQ(line)
	JNE(LabelRef("line"))
	DECQ(groupsAhead)
	JNE(LabelRef("prefetched"))
	ADDQ(arg("skip"), ahead)
	MOVQ(arg("groupsAhead"), groupsAhead)
	Label("prefetched")
	DECQ(n)
	JEQ(LabelRef("last"))
	multiply()
	Label("last")
	VMOVUPS(Mem{Base: dw}, Z30)
	if lows {
		VMOVUPS(Mem{Base: low}, Z31)
	}
	for m := range 16 {
		t, by := vec{16, ""}.phys(16+m%6), vec{16, ""}.phys(22+m%6)
		scaleSums("TILES", lows, m, acc(m), t, by, func() {
			VCVTDQ2PS(Mem{Base: done, Disp: 64 * m}, t)
			VMULPS_BCST(Mem{Base: dx, Disp: 4 * m}, Z30, by)
			VFMADD231PS(by, t, acc(m))
			if lows {
				VFNMADD231PS_BCST(Mem{Base: xs, Disp: 4 * m}, Z31, acc(m))
			}
		})
	}
	ADDQ(Imm(64), dx)
	ADDQ(Imm(64), dw)
	if lows {
		ADDQ(Imm(64), xs)
		ADDQ(Imm(64), low)
	}
	TESTQ(n, n)
	JNE(LabelRef("group"))
	tileRelease()
	MOVQ(arg("ldc"), R14)
	SHLQ(Imm(2), R14)
	endIntegers(acc)
}

// scaleSums writes how the sums of a row of a group are scaled and added to the sums of the row.
func scaleSums(kind string, lows bool, row int, acc, t, by VecPhysical, body func()) {
	macro := "SCALE_ROW_" + kind
	if lows {
		macro += "_LOW"
	}
	macroUse(macro, macro+" adds the scaled sums t of a row of a group to acc.",
		[]param{{"row", row}, {"acc", acc}, {"t", t}, {"by", by}}, body)
}

// startIntegers loads 16 vectors of sums from C, or sets them to zero. endIntegers stores them.
func startIntegers(acc func(m int) VecPhysical) {
	c, ldc := RAX, R14
	MOVQ(arg("c"), c)
	MOVQ(arg("ldc"), ldc)
	SHLQ(Imm(2), ldc)
	CMPQ(arg("resume"), Imm(0))
	JEQ(LabelRef("fresh"))
	for m := range 16 {
		macroUse("LOAD_ROW", "LOAD_ROW loads a row of C.", []param{{"acc", acc(m)}}, func() {
			VMOVUPS(Mem{Base: c}, acc(m))
			ADDQ(ldc, c)
		})
	}
	JMP(LabelRef("begin"))
	Label("fresh")
	for m := range 16 {
		VPXORD(acc(m), acc(m), acc(m))
	}
	Label("begin")
}

func endIntegers(acc func(m int) VecPhysical) {
	c, ldc := RAX, R14
	MOVQ(arg("c"), c)
	for m := range 16 {
		macroUse("STORE_ROW", "STORE_ROW stores a row of C.", []param{{"acc", acc(m)}}, func() {
			VMOVUPS(acc(m), Mem{Base: c})
			ADDQ(ldc, c)
		})
	}
	VZEROUPPER()
	RET()
}

// scales8_0 writes the routine that reads the scales of blocks of q8_0 in 16 rows. Products in tiles unpack nothing
// else.
func scales8_0() {
	TEXT("scalesQ8_0", NOSPLIT, "func(dst *float32, w *byte, stride, blocks int)")
	Doc("scalesQ8_0 sets dst, [blocks][16], to the scales of the blocks in 16 rows of w. Rows are stride bytes apart.",
		"blocks > 0.")
	Pragma("noescape")
	dst, w, n := Load(Param("dst"), GP64()), Load(Param("w"), GP64()), Load(Param("blocks"), GP64())
	rows, order := ZMM(), lanesConst("rowNumbers", 16, func(l int) uint32 { return uint32(l) })
	VPBROADCASTD(arg("stride"), rows)
	VPMULLD(order, rows, rows)
	Label("block")
	all, bits, s := K(), ZMM(), ZMM()
	KXNORW(all, all, all)
	VPGATHERDD(Mem{Base: w, Index: rows, Scale: 1}, all, bits)
	VPMOVDW(bits, s.AsY())
	VCVTPH2PS(s.AsY(), s)
	VMOVUPS(s, Mem{Base: dst})
	ADDQ(Imm(34), w)
	ADDQ(Imm(64), dst)
	DECQ(n)
	JNE(LabelRef("block"))
	VZEROUPPER()
	RET()
}

// largestDword returns a register whose lowest dword is the largest of the eight unsigned dwords of y, a YMM register.
func largestDword(y interface {
	Register
	AsX() Register
}) VecVirtual {
	m, t := XMM(), XMM()
	VEXTRACTI128(Imm(1), y, m)
	VPMAXUD(y.AsX(), m, m)
	VPSHUFD(Imm(0x0e), m, t)
	VPMAXUD(t, m, m)
	VPSHUFD(Imm(1), m, t)
	VPMAXUD(t, m, m)
	return m
}
