package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Routines that pack the operands of attention in tiles, compute its position terms, and transpose its results.

// attendRows writes the routine that packs keys or, if split is set, queries together with their low parts, which
// rounding loses.
func attendRows(split bool) {
	name, sig := "tileRowsBF16", "func(dst, src *float32, ld, rows, steps int)"
	doc := "tileRowsBF16 rounds rows of 32*steps floats, ld apart, to bfloat16: 64 bytes for each step, in consecutive tiles."
	if split {
		name, sig = "tileRowsSplit", "func(dst, low, src *float32, ld, rows, steps, ahead int)"
		doc = "tileRowsSplit is tileRowsBF16, and rounds the remainders to low in the same way. It prefetches what is ahead floats further, too."
	}
	TEXT(name, NOSPLIT, sig)
	Doc(doc, "rows in [1, 16], steps > 0. It prefetches what follows a row, which belongs to the next head.")
	Pragma("noescape")
	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	ld, rows, steps := Load(Param("ld"), GP64()), Load(Param("rows"), GP64()), Load(Param("steps"), GP64())
	from, to, n, size := GP64(), GP64(), GP64(), GP64()
	var low, ahead GPVirtual
	if split {
		low = Load(Param("low"), GP64()).(GPVirtual)
		SUBQ(dst, low)
		ahead = Load(Param("ahead"), GP64()).(GPVirtual)
		SHLQ(U8(2), ahead)
	}
	SHLQ(U8(2), ld)
	MOVQ(steps, size)
	SHLQ(U8(7), size)
	Label("row")
	MOVQ(src, from)
	MOVQ(dst, to)
	MOVQ(steps, n)
	Label("step")
	VMOVUPS(Mem{Base: from}, Z0)
	VMOVUPS(Mem{Base: from, Disp: 64}, Z1)
	PREFETCHT1(Mem{Base: from, Index: size, Scale: 1})
	PREFETCHT1(Mem{Base: from, Index: size, Scale: 1, Disp: 64})
	if split {
		PREFETCHT1(Mem{Base: from, Index: ahead, Scale: 1})
		PREFETCHT1(Mem{Base: from, Index: ahead, Scale: 1, Disp: 64})
	}
	toBF16(Z0, Z1, Z2)
	VMOVUPS(Z2, Mem{Base: to})
	if split {
		VPMOVZXWD(Y2, Z3)
		VPSLLD(Imm(16), Z3, Z3)
		VSUBPS(Z3, Z0, Z0)
		VEXTRACTI64X4(Imm(1), Z2, Y2)
		VPMOVZXWD(Y2, Z3)
		VPSLLD(Imm(16), Z3, Z3)
		VSUBPS(Z3, Z1, Z1)
		toBF16(Z0, Z1, Z2)
		VMOVUPS(Z2, Mem{Base: to, Index: low, Scale: 1})
	}
	ADDQ(U32(128), from)
	ADDQ(U32(tileSize), to)
	DECQ(n)
	JNE(LabelRef("step"))
	ADDQ(ld, src)
	ADDQ(U8(64), dst)
	DECQ(rows)
	JNE(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// attendTerms writes the products of queries and relative positions.
func attendTerms() {
	TEXT(
		"tileTerms", NOSPLIT,
		"func(config *byte, a *float32, aStride int, aLow, b *float32, bStride int, bLow *float32, bStep int, "+
			"c *float32, items *int32, n, steps int)")
	Doc(
		"tileTerms is C = (A+ALow)·(B+BLow) for n tiles of C, n even; the product of both low parts is left out. items holds, for each tile, the",
		"offsets of A, B and C. A is steps consecutive tiles, B steps tiles that are bStep apart. Offsets, steps and strides are in bytes.")
	Pragma("noescape")
	MOVQ(arg("config"), RAX)
	tileConfig(RAX)
	MOVQ(U32(64), RCX)
	MOVQ(arg("aStride"), RDX)
	MOVQ(arg("bStride"), RBX)
	MOVQ(arg("aLow"), R8)
	SUBQ(arg("a"), R8)
	MOVQ(arg("bLow"), R9)
	SUBQ(arg("b"), R9)
	MOVQ(arg("items"), R12)
	as, bs := []GPPhysical{RSI, R10}, []GPPhysical{RDI, R11}
	Label("pair")
	for i := range 2 {
		MOVLQSX(Mem{Base: R12, Disp: 12 * i}, as[i])
		ADDQ(arg("a"), as[i])
		MOVLQSX(Mem{Base: R12, Disp: 12*i + 4}, bs[i])
		ADDQ(arg("b"), bs[i])
		tileZero(tile(i))
	}
	MOVQ(arg("steps"), R15)
	Label("step")
	for i := range tile(2) {
		tileLoad(2+i, as[i], RDX, 0)
		tileLoad(4+i, bs[i], RBX, 0)
		tileProduct(i, 2+i, 4+i)
	}
	for i := range tile(2) {
		LEAQ(Mem{Base: bs[i], Index: R9, Scale: 1}, RAX)
		tileLoad(6+i, RAX, RBX, 0)
		tileProduct(i, 2+i, 6+i)
	}
	for i := range tile(2) {
		LEAQ(Mem{Base: as[i], Index: R8, Scale: 1}, RAX)
		tileLoad(6+i, RAX, RDX, 0)
		tileProduct(i, 6+i, 4+i)
		ADDQ(U32(tileSize), as[i])
		ADDQ(arg("bStep"), bs[i])
	}
	DECQ(R15)
	JNE(LabelRef("step"))
	for i := range tile(2) {
		MOVLQSX(Mem{Base: R12, Disp: 12*int(i) + 8}, RSI)
		ADDQ(arg("c"), RSI)
		tileStore(RSI, RCX, 0, i)
	}
	ADDQ(U8(24), R12)
	SUBQ(U8(2), arg("n"))
	JNE(LabelRef("pair"))
	tileRelease()
	VZEROUPPER()
	RET()
}

// attendOut writes the last step of attention: o / l, transposed.
func attendOut(v vec) {
	TEXT("tileOut", NOSPLIT, "func(dst *float32, ldd int, o, l *float32, rows, tiles int)")
	Doc("tileOut is dst[j*ldd+i] = o[i*16+j] / l[j] for i < 16*tiles, j < rows, rows in [1, 16]; 0 where l is 0.")
	Pragma("noescape")
	dst, ldd := Load(Param("dst"), GP64()), Load(Param("ldd"), GP64())
	o, l := Load(Param("o"), GP64()), Load(Param("l"), GP64())
	tiles := Load(Param("tiles"), GP64())
	SHLQ(U8(2), ldd)
	by, sum := ZMM(), ZMM()
	VMOVUPS(Mem{Base: l}, sum)
	zero := v.zero()
	VCMPPS(Imm(4), zero, sum, K1) // not equal, true for NaN
	VMOVUPS(f32(1), by)
	VDIVPS_Z(sum, by, K1, by)
	to, rows := GP64(), GP64()
	Label("tile")
	r := make([]VecVirtual, 16)
	for i := range r {
		r[i] = ZMM()
		VMULPS(Mem{Base: o, Disp: 64 * i}, by, r[i])
	}
	MOVQ(dst, to)
	Load(Param("rows"), rows)
	for _, c := range shuffled(v, r) {
		VMOVUPS(c, Mem{Base: to})
		ADDQ(ldd, to)
		DECQ(rows)
		JEQ(LabelRef("next"))
	}
	Label("next")
	ADDQ(U8(64), dst)
	ADDQ(U32(tileSize), o)
	DECQ(tiles)
	JNE(LabelRef("tile"))
	VZEROUPPER()
	RET()
}

// attendPairs writes the routine that packs values, before they are transposed.
func attendPairs() {
	TEXT("tilePairsBF16", NOSPLIT, "func(dst, src *float32, ld, pairs, vectors int)")
	Doc("tilePairsBF16 is pairBF16 for rows of 16*vectors floats that are ld apart.")
	Pragma("noescape")
	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	ld, pairs, vectors := Load(Param("ld"), GP64()), Load(Param("pairs"), GP64()), Load(Param("vectors"), GP64())
	SHLQ(U8(2), ld)
	SHLQ(U8(6), vectors)
	VMOVUPS(weave(), Z3)
	next, i := GP64(), GP64()
	Label("pair")
	LEAQ(Mem{Base: src, Index: ld, Scale: 1}, next)
	pairVectors(dst, src, next, i, vectors)
	for range 2 { // what follows belongs to the next head
		for line := range 4 {
			PREFETCHT1(Mem{Base: src, Index: i, Scale: 1, Disp: 64 * line})
		}
		MOVQ(next, src)
	}
	ADDQ(vectors, dst)
	LEAQ(Mem{Base: next, Index: ld, Scale: 1}, src)
	DECQ(pairs)
	JNE(LabelRef("pair"))
	VZEROUPPER()
	RET()
}
