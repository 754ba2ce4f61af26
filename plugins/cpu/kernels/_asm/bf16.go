package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// genBF16 writes the conversions to bfloat16 and the products of bfloat16 pairs.
func genBF16(v vec) {
	roundBF16(v)
	if !v.wide() {
		return
	}
	pairBF16(v)
	tileRow()
	blockRows()
	for _, vecs := range []int{2, 1} {
		for rows := 1; rows <= v.panelRows(); rows++ {
			product(v, rows, vecs, fmt.Sprintf("pairs%dx%d", rows, vecs*v.lanes),
				"func(k int, a, b, c *float32, ldc int, accumulate int, bias, residual *float32, ldr int)", packedRows(pairsRow))
		}
	}
	tilesBF16()
}

// pairsRow is fmaRow for pairs.
func pairsRow(disp int, x VecPhysical, b, sums []VecPhysical) {
	args := []any{disp}
	for _, s := range sums {
		args = append(args, s)
	}
	macro(fmt.Sprintf("PAIRS%d_%s", len(b), x.Asm()), args...)
}

// rounded rounds the lanes of x to bfloat16, ties to even, in their high halves. NaN stays NaN. The low halves of the
// result are arbitrary.
func (v vec) rounded(x Register) VecVirtual {
	var out VecVirtual
	name := "ROUND_BF16_" + v.name
	macroUse(name, name+" rounds the lanes of x to bfloat16, in the high halves of out.",
		[]param{{"x", x}, {"out", &out}}, func() {
			r := v.reg()
			VPSRLD(Imm(16), x, r)
			if v.wide() {
				VPANDD(bitsConst(1), r, r)
			} else {
				VPAND(bitsConst(1), r, r)
			}
			VPADDD(bitsConst(0x7fff), r, r)
			VPADDD(x, r, r)
			quiet := v.reg()
			v.or(bitsConst(0x00400000), x, quiet)
			out = v.pick(cmpUnordered, x, x, quiet, r)
		})
	return out
}

// pairBF16 writes the routine that packs rows of float32 as pairs.
func pairBF16(v vec) {
	TEXT("pairBF16", NOSPLIT, "func(dst, src *float32, width, pairs int)")
	Doc(
		"pairBF16 packs rows 2i and 2i+1 of src[2*pairs, width], rounded to bfloat16, into the low and the high half of row i of",
		"dst[pairs, width]. It reads and writes whole vectors, past the last row too; width, pairs > 0.")
	Pragma("noescape")
	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	width, pairs := Load(Param("width"), GP64()), Load(Param("pairs"), GP64())
	VMOVUPS(weave(), Z3)
	row, next, i := GP64(), GP64(), GP64()
	MOVQ(width, row)
	SHLQ(U8(2), row)
	Label("pair")
	LEAQ(Mem{Base: src, Index: row, Scale: 1}, next)
	pairVectors(dst, src, next, i, row)
	ADDQ(row, dst)
	LEAQ(Mem{Base: next, Index: row, Scale: 1}, src)
	DECQ(pairs)
	JNE(LabelRef("pair"))
	VZEROUPPER()
	RET()
}

// pairVectors packs two rows of the given size in bytes, a vector of each at a time. Z3 holds weave. i ends at bytes.
func pairVectors(dst, src, next, i, bytes Register) {
	XORQ(i, i)
	Label("vector")
	VMOVUPS(Mem{Base: src, Index: i, Scale: 1}, Z0)
	VMOVUPS(Mem{Base: next, Index: i, Scale: 1}, Z1)
	toBF16(Z0, Z1, Z2)
	VPERMW(Z2, Z3, Z2)
	VMOVUPS(Z2, Mem{Base: dst, Index: i, Scale: 1})
	ADDQ(U8(64), i)
	CMPQ(i, bytes)
	JLT(LabelRef("vector"))
}

// weave returns the permutation of 16-bit words 0, 16, 1, 17, ..., which interleaves two vectors of bfloat16.
func weave() Mem {
	m := GLOBL("weave", 8|16) // RODATA|NOPTR
	for i := range 16 {
		DATA(4*i, U32(i|(i+16)<<16))
	}
	return m
}

// roundBF16 writes the routine that rounds to bfloat16 and keeps the values as float32.
func roundBF16(v vec) {
	name := "roundBF16" + v.name
	TEXT(name, NOSPLIT, "func(dst, src *float32, blocks int)")
	Doc(name + " is dst = src rounded to bfloat16, as float32, over blocks*lanes elements; blocks > 0, dst may be src.")
	Pragma("noescape")
	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	n := Load(Param("blocks"), GP64())
	high := v.load(bitsConst(0xffff0000))
	Label("loop")
	x := v.reg()
	VMOVUPS(Mem{Base: src}, x)
	r := v.rounded(x)
	v.and(high, r, r)
	VMOVUPS(r, Mem{Base: dst})
	ADDQ(Imm(uint64(v.bytes())), src)
	ADDQ(Imm(uint64(v.bytes())), dst)
	DECQ(n)
	JNE(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// tileRow writes the routine that packs one row of the left operand of a product of tiles.
func tileRow() {
	TEXT("tileRowBF16", NOSPLIT, "func(dst, src *float32, steps int)")
	Doc(
		"tileRowBF16 rounds 32*steps floats to bfloat16: 64 bytes for each step, to addresses 2048 bytes apart; steps > 0.")
	Pragma("noescape")
	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	n := Load(Param("steps"), GP64())
	Label("loop")
	VMOVUPS(Mem{Base: src}, Z0)
	VMOVUPS(Mem{Base: src, Disp: 64}, Z1)
	toBF16(Z0, Z1, Z2)
	VMOVUPS(Z2, Mem{Base: dst})
	ADDQ(U32(128), src)
	ADDQ(U32(2048), dst)
	DECQ(n)
	JNE(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// blockRows writes the routine that rounds rows into blocks of 32x32.
func blockRows() {
	TEXT("blockRowsBF16", NOSPLIT, "func(dst, src *float32, ld, rows, steps int)")
	Doc(
		"blockRowsBF16 rounds rows of 32*steps floats, ld floats apart, to bfloat16, with stores that bypass the caches. The rows of a step are",
		"consecutive, steps are 2048 bytes apart; dst is aligned to 64 bytes; rows, steps > 0.")
	Pragma("noescape")
	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	ld, n := Load(Param("ld"), GP64()), Load(Param("steps"), GP64())
	SHLQ(U8(2), ld)
	rows, from, to := GP64(), GP64(), GP64()
	Label("step")
	Load(Param("rows"), rows)
	MOVQ(src, from)
	MOVQ(dst, to)
	Label("row")
	VMOVUPS(Mem{Base: from}, Z0)
	VMOVUPS(Mem{Base: from, Disp: 64}, Z1)
	toBF16(Z0, Z1, Z2)
	VMOVNTPS(Z2, Mem{Base: to})
	ADDQ(ld, from)
	ADDQ(U8(64), to)
	DECQ(rows)
	JNE(LabelRef("row"))
	ADDQ(U32(128), src)
	ADDQ(U32(2048), dst)
	DECQ(n)
	JNE(LabelRef("step"))
	VZEROUPPER()
	RET()
}

const tileSide = 32 // rows and columns of a block

// tilesBF16 writes the product of tiles and the loop that measures its peak.
func tilesBF16() {
	TEXT(
		"tilesBF16", NOSPLIT,
		"func(config *byte, blocks, steps int, a, b, c *float32, ldc int, init *float32, ldi int)")
	Doc("tilesBF16 is C = init + A·B for blocks of 32 rows by 32 columns and 32*steps deep; blocks, steps > 0. A is",
		"[blocks][steps][32 rows, 32 bfloat16], B is pairs: [16*steps, 32]. Leading dimensions count floats; init may be nil or C.")
	Pragma("noescape")
	Load(Param("config"), RAX)
	tileConfig(RAX)
	Load(Param("blocks"), R8)
	Load(Param("a"), RSI)
	Load(Param("c"), RDI)
	Load(Param("ldc"), R9)
	SHLQ(U8(2), R9)
	Load(Param("init"), R10)
	Load(Param("ldi"), R11)
	SHLQ(U8(2), R11)
	Label("block")
	// C is stored after the last step: prefetch its lines now.
	MOVQ(RDI, RAX)
	for i := range tileSide {
		PREFETCHT0(Mem{Base: RAX})
		PREFETCHT0(Mem{Base: RAX, Disp: 64})
		if i < tileSide-1 {
			ADDQ(R9, RAX)
		}
	}
	TESTQ(R10, R10)
	JEQ(LabelRef("zero"))
	MOVQ(R10, RAX)
	MOVQ(R11, RCX)
	tileLoad(0, RAX, RCX, 0)
	ADDQ(U8(64), RAX)
	tileLoad(1, RAX, RCX, 0)
	SHLQ(U8(4), RCX)
	ADDQ(RCX, RAX)
	MOVQ(R11, RCX)
	tileLoad(3, RAX, RCX, 0)
	SUBQ(U8(64), RAX)
	tileLoad(2, RAX, RCX, 0)
	MOVQ(R11, RAX)
	SHLQ(U8(5), RAX)
	ADDQ(RAX, R10)
	JMP(LabelRef("start"))
	Label("zero")
	for t := range tile(4) {
		tileZero(t)
	}
	Label("start")
	Load(Param("b"), RDX)
	Load(Param("steps"), R12)
	MOVQ(U32(64), RCX)
	MOVQ(U32(128), RBX)
	Label("step")
	tileLoad(4, RSI, RCX, 0)
	tileLoad(6, RDX, RBX, 0)
	ADDQ(U8(64), RDX)
	tileLoad(7, RDX, RBX, 0)
	ahead := func(lo, hi int) { // prefetches A, which comes from the L2 cache
		for i := lo; i < hi; i++ {
			PREFETCHT0(Mem{Base: RSI, Disp: 2*2048 + 64*i})
		}
	}
	ahead(0, 16)
	tileProduct(0, 4, 6)
	ADDQ(U32(1024), RSI)
	tileLoad(5, RSI, RCX, 0)
	tileProduct(1, 4, 7)
	ahead(0, 16)
	tileProduct(2, 5, 6)
	tileProduct(3, 5, 7)
	ADDQ(U32(1024), RSI)
	ADDQ(U32(2048-64), RDX)
	DECQ(R12)
	JNE(LabelRef("step"))
	MOVQ(RDI, RAX)
	MOVQ(R9, RCX)
	tileStore(RAX, RCX, 0, 0)
	ADDQ(U8(64), RAX)
	tileStore(RAX, RCX, 0, 1)
	SHLQ(U8(4), RCX)
	ADDQ(RCX, RAX)
	MOVQ(R9, RCX)
	tileStore(RAX, RCX, 0, 3)
	SUBQ(U8(64), RAX)
	tileStore(RAX, RCX, 0, 2)
	MOVQ(R9, RAX)
	SHLQ(U8(5), RAX)
	ADDQ(RAX, RDI)
	DECQ(R8)
	JNE(LabelRef("block"))
	tileRelease()
	RET()

	TEXT("tilesPeak", NOSPLIT, "func(config *byte, n int)")
	Doc("tilesPeak does 4*n products of whole tiles on registers; n > 0.")
	Pragma("noescape")
	Load(Param("config"), RAX)
	tileConfig(RAX)
	Load(Param("n"), RCX)
	for t := range tile(8) {
		tileZero(t)
	}
	Label("loop")
	tileProduct(0, 4, 6)
	tileProduct(1, 4, 7)
	tileProduct(2, 5, 6)
	tileProduct(3, 5, 7)
	DECQ(RCX)
	JNE(LabelRef("loop"))
	tileRelease()
	RET()

	TEXT("pairsPeak", NOSPLIT, "func(n int)")
	Doc("pairsPeak does 12*n vector products of pairs on registers; n > 0.")
	n := Load(Param("n"), GP64())
	v := vec{16, "AVX512"}
	for i := range 14 {
		v.clear(v.phys(i))
	}
	Label("loop")
	for i := range 12 {
		vdpbf16ps(v.phys(12), v.phys(13), v.phys(i))
	}
	DECQ(n)
	JNE(LabelRef("loop"))
	VZEROUPPER()
	RET()
}
