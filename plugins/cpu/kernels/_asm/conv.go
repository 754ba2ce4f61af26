package main

import (
	"strconv"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// genConv writes the routines with which convolutions read images.
func genConv(v vec) {
	gatherRows(v)
	copyRuns(v)
	evens(v)
	zip(v)
	stencil(v, false, 1)
	stencil(v, false, 2)
	stencil(v, true, 1)
	stencilPixels(v)
	stencilLines(v, 1)
	stencilLines(v, 2)
}

// gatherRows writes the routine that gathers a vector of each row by indices, with zeros for negative ones.
func gatherRows(v vec) {
	name := "gatherRows" + v.name
	TEXT(name, NOSPLIT, "func(dst *float32, ldd int, src *float32, lds int, rows int, at *int32)")
	Doc(name + " is dst[i*ldd+j] = src[i*lds+at[j]] for i < rows and j < lanes, 0 where at[j] is negative; rows > 0.")
	Pragma("noescape")
	dst := Load(Param("dst"), GP64())
	ldd := Load(Param("ldd"), GP64())
	src := Load(Param("src"), GP64())
	lds := Load(Param("lds"), GP64())
	rows := Load(Param("rows"), GP64())
	at := Load(Param("at"), GP64())
	SHLQ(U8(2), ldd)
	SHLQ(U8(2), lds)
	index, r := v.reg(), v.reg()
	if v.wide() {
		inside, left := K(), K()
		VMOVDQU32(Mem{Base: at}, index)
		VPMOVD2M(index, inside)
		KNOTW(inside, inside)
		Label("row")
		KMOVW(inside, left)
		v.clear(r)
		VGATHERDPS(Mem{Base: src, Index: index, Scale: 4}, left, r)
	} else {
		inside, left := v.reg(), v.reg()
		VMOVDQU(Mem{Base: at}, index)
		VPCMPEQD(inside, inside, inside)
		VPXOR(index, inside, inside)
		Label("row")
		VMOVAPS(inside, left)
		v.clear(r)
		VGATHERDPS(left, Mem{Base: src, Index: index, Scale: 4}, r)
	}
	VMOVUPS(r, Mem{Base: dst})
	ADDQ(lds, src)
	ADDQ(ldd, dst)
	DECQ(rows)
	JNE(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// copyRuns writes the routine that copies runs from a list of offsets. Narrow vectors store short runs, since stores
// that overlap and cross cache lines take several times as long.
func copyRuns(v vec) {
	name := "copyRuns" + v.name
	TEXT(name, NOSPLIT, "func(dst *float32, ldd int, src *float32, at *int, rows int, runs *int, n int, wide int)")
	Doc(name + " is dst[i*ldd+runs[2*j]:][:wide] = src[at[i]+runs[2*j+1]:][:wide] for i < rows and j < n, in" +
		" ascending i and then j; wide is 4, 8 or 16 and at most lanes; rows and n > 0.")
	Pragma("noescape")
	dst := Load(Param("dst"), GP64())
	ldd := Load(Param("ldd"), GP64())
	src := Load(Param("src"), GP64())
	at := Load(Param("at"), GP64())
	rows := Load(Param("rows"), GP64())
	runs := Load(Param("runs"), GP64())
	n := Load(Param("n"), GP64())
	wide := Load(Param("wide"), GP64())
	SHLQ(U8(2), ldd)
	SHLQ(U8(4), n)
	ADDQ(n, runs) // the end; n counts up to it
	x, run, to, from := GP64(), GP64(), GP64(), GP64()
	for _, w := range []struct {
		lanes int
		r     VecVirtual
	}{{4, XMM()}, {8, YMM()}, {16, ZMM()}} {
		if w.lanes > v.lanes {
			break
		}
		row, next := "row"+strconv.Itoa(w.lanes), "run"+strconv.Itoa(w.lanes)
		if w.lanes > 4 {
			Label("wide" + strconv.Itoa(w.lanes))
		}
		if w.lanes < v.lanes {
			CMPQ(wide, Imm(uint64(w.lanes)))
			JNE(LabelRef("wide" + strconv.Itoa(2*w.lanes)))
		}
		Label(row)
		MOVQ(Mem{Base: at}, x)
		LEAQ(Mem{Base: src, Index: x, Scale: 4}, x)
		MOVQ(n, run)
		NEGQ(run)
		Label(next)
		MOVQ(Mem{Base: runs, Index: run, Scale: 1}, to)
		MOVQ(Mem{Base: runs, Index: run, Scale: 1, Disp: 8}, from)
		VMOVUPS(Mem{Base: x, Index: from, Scale: 4}, w.r)
		VMOVUPS(w.r, Mem{Base: dst, Index: to, Scale: 4})
		ADDQ(Imm(16), run)
		JNE(LabelRef(next))
		ADDQ(Imm(8), at)
		ADDQ(ldd, dst)
		DECQ(rows)
		JNE(LabelRef(row))
		VZEROUPPER()
		RET()
	}
}

// numbers writes consecutive 32-bit constants.
func numbers(name string, x []uint32) Mem {
	m := GLOBL(name, 8|16) // RODATA|NOPTR
	for i, b := range x {
		DATA(4*i, U32(b))
	}
	return m
}

// evenLanes returns the indices of every second lane of two wide vectors.
func evenLanes() Mem { return lanesConst("evenLanes", 16, func(l int) uint32 { return uint32(2 * l) }) }

// evens writes the routine that copies every second element.
func evens(v vec) {
	name := "evens" + v.name
	TEXT(name, NOSPLIT, "func(dst, src *float32, blocks int)")
	Doc(name + " is dst[i] = src[2*i] for i < blocks*lanes; it reads one element more. blocks > 0.")
	Pragma("noescape")
	dst := Load(Param("dst"), GP64())
	src := Load(Param("src"), GP64())
	blocks := Load(Param("blocks"), GP64())
	var lanes VecVirtual
	if v.wide() {
		lanes = v.load(evenLanes())
	}
	Label("loop")
	a := v.reg()
	VMOVUPS(Mem{Base: src}, a)
	if v.wide() {
		VPERMT2PS(Mem{Base: src, Disp: 64}, lanes, a)
	} else {
		VSHUFPS(Imm(0x88), Mem{Base: src, Disp: 32}, a, a)
		VPERMPD(Imm(0xd8), a, a)
	}
	VMOVUPS(a, Mem{Base: dst})
	ADDQ(U32(uint32(2*v.bytes())), src)
	ADDQ(Imm(uint64(v.bytes())), dst)
	DECQ(blocks)
	JNE(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// zip writes the routine that interleaves two vectors.
func zip(v vec) {
	name := "zip" + v.name
	var low, high Mem
	if v.wide() {
		x, y := make([]uint32, 16), make([]uint32, 16)
		for i := range x {
			x[i] = uint32(i/2 + i%2*16)
			y[i] = x[i] + 8
		}
		low, high = numbers("zipLow", x), numbers("zipHigh", y)
	}
	TEXT(name, NOSPLIT, "func(dst, a, b *float32, blocks int)")
	Doc(name + " is dst[2*i] = a[i], dst[2*i+1] = b[i] for i < blocks*lanes; blocks > 0.")
	Pragma("noescape")
	dst := Load(Param("dst"), GP64())
	a := Load(Param("a"), GP64())
	b := Load(Param("b"), GP64())
	blocks := Load(Param("blocks"), GP64())
	var lanes [2]VecVirtual
	if v.wide() {
		lanes = [2]VecVirtual{v.load(low), v.load(high)}
	}
	Label("loop")
	x, y, r, t := v.reg(), v.reg(), v.reg(), v.reg()
	VMOVUPS(Mem{Base: a}, x)
	VMOVUPS(Mem{Base: b}, y)
	if v.wide() {
		VMOVAPS(x, r)
		VPERMT2PS(y, lanes[0], r)
		VPERMT2PS(y, lanes[1], x)
		VMOVUPS(r, Mem{Base: dst})
		VMOVUPS(x, Mem{Base: dst, Disp: 64})
	} else {
		VUNPCKLPS(y, x, r)
		VUNPCKHPS(y, x, t)
		VPERM2F128(Imm(0x20), t, r, x)
		VPERM2F128(Imm(0x31), t, r, y)
		VMOVUPS(x, Mem{Base: dst})
		VMOVUPS(y, Mem{Base: dst, Disp: 32})
	}
	for _, p := range []Register{a, b} {
		ADDQ(Imm(uint64(v.bytes())), p)
	}
	ADDQ(U32(uint32(2*v.bytes())), dst)
	DECQ(blocks)
	JNE(LabelRef("loop"))
	VZEROUPPER()
	RET()
}
