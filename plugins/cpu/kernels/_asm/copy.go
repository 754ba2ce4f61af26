package main

import (
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// genCopy writes the routines that transpose, reverse, copy, stream and prefetch, the conversions from and to f16 and
// bf16, and the matrix-vector product.
func genCopy(v vec) {
	transpose(v)
	widen(v)
	narrow(v)
	dotRows(v)
	for few := 2; few <= 4; few++ {
		dotsFew(v, few)
	}
	copyRows(v)
	reverse(v)
	stream(v)
	if !v.wide() {
		prefetchRows()
		storeFence()
	}
}

func storeFence() {
	TEXT("storeFence", NOSPLIT, "func()")
	Doc("storeFence orders non-temporal stores, which bypass the caches, before later stores.")
	SFENCE()
	RET()
}

// prefetchRows prefetches one cache line of each row.
func prefetchRows() {
	TEXT("prefetchRows", NOSPLIT, "func(at, stride uintptr, rows int)")
	Doc(
		"prefetchRows brings the cache lines at the addresses at+i*stride for i < rows into the L2 cache, whether or not there is memory. rows > 0.")
	Pragma("noescape")
	at, stride, n := Load(Param("at"), GP64()), Load(Param("stride"), GP64()), Load(Param("rows"), GP64())
	Label("loop")
	PREFETCHT1(Mem{Base: at})
	ADDQ(stride, at)
	DECQ(n)
	JNE(LabelRef("loop"))
	RET()
}

// stream copies cache lines by stores that bypass the caches.
func stream(v vec) {
	name := "stream" + v.name
	TEXT(name, NOSPLIT, "func(dst, src *uint8, next, after uintptr, lines int)")
	Doc(
		name+" copies 64*lines bytes by non-temporal stores, and brings as many from the addresses next and after into the L1 cache,",
		"whether or not there is memory; dst is aligned to 64 bytes, lines > 0. See storeFence.")
	Pragma("noescape")
	dst, src, n := Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("lines"), GP64())
	next, after := Load(Param("next"), GP64()), Load(Param("after"), GP64())
	Label("loop")
	PREFETCHT0(Mem{Base: next})
	PREFETCHT0(Mem{Base: after})
	for at := 0; at < 64; at += v.bytes() {
		VMOVNTPS(v.load(Mem{Base: src, Disp: at}), Mem{Base: dst, Disp: at})
	}
	for _, p := range []Register{src, dst, next, after} {
		ADDQ(Imm(64), p)
	}
	DECQ(n)
	JNE(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

func reverse(v vec) {
	name := "reverse" + v.name
	TEXT(name, NOSPLIT, "func(dst, src *float32, blocks int)")
	Doc(name + " is dst[n-1-i] = src[i] for i < n = blocks*lanes; blocks > 0.")
	Pragma("noescape")
	dst, src, n := Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("blocks"), GP64())
	last := make([]uint32, v.lanes)
	for i := range last {
		last[i] = uint32(v.lanes - 1 - i)
	}
	order := v.load(numbers("reversed"+v.name, last))
	at := GP64()
	MOVQ(n, at)
	DECQ(at)
	SHLQ(U8(uint8(4+v.lanes/8)), at)
	ADDQ(at, dst)
	Label("loop")
	x := v.reg()
	VPERMPS(Mem{Base: src}, order, x)
	VMOVUPS(x, Mem{Base: dst})
	ADDQ(Imm(uint64(v.bytes())), src)
	SUBQ(Imm(uint64(v.bytes())), dst)
	DECQ(n)
	JNE(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// transpose copies dst[j*ldd + i] = src[i*lds + j] for i < rows, j < blocks*lanes.
func transpose(v vec) {
	TEXT("transpose"+v.name, NOSPLIT, "func(dst *float32, ldd int, src *float32, lds int, rows int, blocks int)")
	Doc(
		"transpose"+v.name+
			" copies dst[j*ldd+i] = src[i*lds+j] for i < rows <= lanes and j < blocks*lanes. It stores whole",
		"vectors in ascending j: up to lanes-rows floats past each row of dst are overwritten with rubbish.")
	Pragma("noescape")
	dst := Load(Param("dst"), GP64())
	ldd := Load(Param("ldd"), GP64())
	src := Load(Param("src"), GP64())
	lds := Load(Param("lds"), GP64())
	rows := Load(Param("rows"), GP64())
	blocks := Load(Param("blocks"), GP64())
	SHLQ(U8(2), ldd)
	SHLQ(U8(2), lds)
	p, i := GP64(), GP64()
	Label("block")
	r := make([]VecVirtual, v.lanes)
	for n := range r {
		r[n] = v.reg()
	}
	// Rows past the last one repeat it. Their lanes are never read, and nothing outside of the source is.
	MOVQ(src, p)
	MOVQ(rows, i)
	for n := range r {
		VMOVUPS(Mem{Base: p}, r[n])
		if n < v.lanes-1 {
			q := GP64()
			LEAQ(Mem{Base: p, Index: lds, Scale: 1}, q)
			DECQ(i)
			CMOVQGT(q, p)
		}
	}
	for _, c := range shuffled(v, r) {
		VMOVUPS(c, Mem{Base: dst})
		ADDQ(ldd, dst)
	}
	ADDQ(Imm(uint64(v.bytes())), src)
	DECQ(blocks)
	JNE(LabelRef("block"))
	VZEROUPPER()
	RET()
}

// shuffled transposes the lanes x lanes block in r.
func shuffled(v vec, r []VecVirtual) []VecVirtual {
	n := len(r)
	a := make([]VecVirtual, n)
	for g := 0; g < n; g += 2 { // interleave pairs of rows
		a[g], a[g+1] = v.reg(), v.reg()
		VUNPCKLPS(r[g+1], r[g], a[g])
		VUNPCKHPS(r[g+1], r[g], a[g+1])
	}
	b := make([]VecVirtual, n) // b[4g+c] holds column c (mod 4) of rows 4g..4g+3 in each 128-bit lane
	for g := 0; g < n; g += 4 {
		for c := 0; c < 4; c++ {
			b[g+c] = v.reg()
			VSHUFPS(Imm([]uint64{0x44, 0xee}[c%2]), a[g+2+c/2], a[g+c/2], b[g+c])
		}
	}
	out := make([]VecVirtual, n)
	if !v.wide() {
		for c := 0; c < 4; c++ {
			out[c], out[c+4] = v.reg(), v.reg()
			VPERM2F128(Imm(0x20), b[4+c], b[c], out[c])
			VPERM2F128(Imm(0x31), b[4+c], b[c], out[c+4])
		}
		return out
	}
	for c := 0; c < 4; c++ { // transpose the 4x4 matrix of 128-bit lanes
		lo0, lo1, hi0, hi1 := ZMM(), ZMM(), ZMM(), ZMM()
		VSHUFF32X4(Imm(0x88), b[4+c], b[c], lo0) // lanes 0,2 of both
		VSHUFF32X4(Imm(0x88), b[12+c], b[8+c], lo1)
		VSHUFF32X4(Imm(0xdd), b[4+c], b[c], hi0) // lanes 1,3
		VSHUFF32X4(Imm(0xdd), b[12+c], b[8+c], hi1)
		for i := range 4 {
			out[4*i+c] = ZMM()
		}
		VSHUFF32X4(Imm(0x88), lo1, lo0, out[c])
		VSHUFF32X4(Imm(0x88), hi1, hi0, out[4+c])
		VSHUFF32X4(Imm(0xdd), lo1, lo0, out[8+c])
		VSHUFF32X4(Imm(0xdd), hi1, hi0, out[12+c])
	}
	return out
}

// widen writes the conversions of f16 and bf16 to f32, for whole vectors only.
func widen(v vec) {
	for _, kind := range []string{"f16", "bf16"} {
		name := "widen" + strings.ToUpper(kind) + v.name
		TEXT(name, NOSPLIT, "func(dst *float32, src *uint16, blocks int)")
		Doc(name + " widens blocks*lanes elements exactly.")
		Pragma("noescape")
		dst := Load(Param("dst"), GP64())
		src := Load(Param("src"), GP64())
		blocks := Load(Param("blocks"), GP64())
		Label("loop")
		VMOVUPS(v.widened(kind, Mem{Base: src}), Mem{Base: dst})
		ADDQ(Imm(uint64(v.lanes*2)), src)
		ADDQ(Imm(uint64(v.bytes())), dst)
		DECQ(blocks)
		JNE(LabelRef("loop"))
		VZEROUPPER()
		RET()
	}
}

// narrow writes the conversions of f32 to f16 and bf16, for whole vectors only.
func narrow(v vec) {
	for _, kind := range []string{"f16", "bf16"} {
		name := "narrow" + strings.ToUpper(kind) + v.name
		TEXT(name, NOSPLIT, "func(dst *uint16, src *float32, blocks int)")
		Doc(name + " rounds blocks*lanes elements to the nearest, ties to even; blocks > 0.")
		Pragma("noescape")
		dst := Load(Param("dst"), GP64())
		src := Load(Param("src"), GP64())
		blocks := Load(Param("blocks"), GP64())
		Label("loop")
		x := v.reg()
		VMOVUPS(Mem{Base: src}, x)
		v.storeNarrowed(kind, x, Mem{Base: dst})
		ADDQ(Imm(uint64(v.bytes())), src)
		ADDQ(Imm(uint64(v.lanes*2)), dst)
		DECQ(blocks)
		JNE(LabelRef("loop"))
		VZEROUPPER()
		RET()
	}
}

// dotRows writes the matrix-vector product dst[i*inc] = sum_k mat[i*ld+k]*x[k].
func dotRows(v vec) {
	name := "dotRows" + v.name
	TEXT(name, NOSPLIT, "func(dst *float32, inc int, mat *float32, ld int, rows int, x *float32, k int)")
	Doc(name + " is dst[i*inc] = sum_k mat[i*ld+k]*x[k] for i < rows; rows > 0.")
	Pragma("noescape")
	dst := Load(Param("dst"), GP64())
	inc := Load(Param("inc"), GP64())
	mat := Load(Param("mat"), GP64())
	ld := Load(Param("ld"), GP64())
	rows := Load(Param("rows"), GP64())
	SHLQ(U8(2), inc)
	SHLQ(U8(2), ld)
	m, x, k := GP64(), GP64(), GP64()
	Label("row")
	MOVQ(mat, m)
	Load(Param("x"), x)
	Load(Param("k"), k)
	acc := [4]VecVirtual{}
	for i := range acc {
		acc[i] = v.zero()
	}
	tail := XMM()
	VXORPS(tail, tail, tail)
	SUBQ(Imm(uint64(4*v.lanes)), k)
	JLT(LabelRef("vectors"))
	Label("four")
	for i := range acc {
		t := v.reg()
		VMOVUPS(Mem{Base: m, Disp: i * v.bytes()}, t)
		VFMADD231PS(Mem{Base: x, Disp: i * v.bytes()}, t, acc[i])
	}
	ADDQ(U32(uint32(4*v.bytes())), m)
	ADDQ(U32(uint32(4*v.bytes())), x)
	SUBQ(Imm(uint64(4*v.lanes)), k)
	JGE(LabelRef("four"))
	Label("vectors")
	ADDQ(Imm(uint64(4*v.lanes)), k)
	SUBQ(Imm(uint64(v.lanes)), k)
	JLT(LabelRef("scalars"))
	Label("one")
	t := v.reg()
	VMOVUPS(Mem{Base: m}, t)
	VFMADD231PS(Mem{Base: x}, t, acc[0])
	ADDQ(Imm(uint64(v.bytes())), m)
	ADDQ(Imm(uint64(v.bytes())), x)
	SUBQ(Imm(uint64(v.lanes)), k)
	JGE(LabelRef("one"))
	Label("scalars")
	ADDQ(Imm(uint64(v.lanes)), k)
	JEQ(LabelRef("sum"))
	Label("scalar")
	s := XMM()
	VMOVSS(Mem{Base: m}, s)
	VFMADD231SS(Mem{Base: x}, s, tail)
	ADDQ(Imm(4), m)
	ADDQ(Imm(4), x)
	DECQ(k)
	JNE(LabelRef("scalar"))
	Label("sum")
	VADDPS(acc[1], acc[0], acc[0])
	VADDPS(acc[3], acc[2], acc[2])
	VADDPS(acc[2], acc[0], acc[0])
	sum := v.lane(acc[0])
	VADDSS(tail, sum, sum)
	VMOVSS(sum, Mem{Base: dst})
	ADDQ(inc, dst)
	ADDQ(ld, mat)
	DECQ(rows)
	JNE(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// copyRows writes the routine that copies one vector per row. Rows of the destination may be narrower than a vector, so
// it stores them in order.
func copyRows(v vec) {
	name := "copyRows" + v.name
	TEXT(name, NOSPLIT, "func(dst *float32, ldd int, src *float32, lds int, rows int)")
	Doc(name + " is dst[i*ldd:][:lanes] = src[i*lds:][:lanes] for i < rows, in ascending i; rows > 0.")
	Pragma("noescape")
	dst := Load(Param("dst"), GP64())
	ldd := Load(Param("ldd"), GP64())
	src := Load(Param("src"), GP64())
	lds := Load(Param("lds"), GP64())
	rows := Load(Param("rows"), GP64())
	SHLQ(U8(2), ldd)
	SHLQ(U8(2), lds)
	Label("row")
	r := v.reg()
	VMOVUPS(Mem{Base: src}, r)
	VMOVUPS(r, Mem{Base: dst})
	ADDQ(lds, src)
	ADDQ(ldd, dst)
	DECQ(rows)
	JNE(LabelRef("row"))
	VZEROUPPER()
	RET()
}
