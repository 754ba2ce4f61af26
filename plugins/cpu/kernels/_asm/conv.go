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

// stencil writes the routine that adds up multiples of src at several offsets: with a weight for each offset or, if
// each is set, for each offset and element. With a step of 2 it reads every second element.
func stencil(v vec, each bool, step int) {
	name, sig := "stencil"+v.name, "func(dst, src *float32, at *int, taps int, w *float32, bias float32, blocks int)"
	doc := " is dst[i] = bias + sum_t w[t]*src[at[t]+i] for i < blocks*lanes, t in order; taps and blocks > 0."
	switch {
	case each:
		name, sig = "stencilEach"+v.name,
			"func(dst, src *float32, at *int, taps int, w *float32, place *int, bias *float32, blocks int)"
		doc = " is dst[i] = bias[i] + sum_t w[place[t]+i]*src[at[t]+i] for i < blocks*lanes, t in order; taps and blocks > 0."
	case step == 2:
		name = "stencilEvens" + v.name
		doc = " is dst[i] = bias + sum_t w[t]*src[at[t]+2*i] for i < blocks*lanes, t in order; it reads one element more. taps and blocks > 0."
	}
	var evens VecVirtual
	TEXT(name, NOSPLIT, sig)
	Doc(name + doc)
	Pragma("noescape")
	dst := Load(Param("dst"), GP64())
	src := Load(Param("src"), GP64())
	w := Load(Param("w"), GP64())
	blocks := Load(Param("blocks"), GP64())
	at, place, taps, x, y := GP64(), GP64(), GP64(), GP64(), GP64()
	var bias GPVirtual
	var spread VecVirtual
	if each {
		bias = GP64()
		Load(Param("bias"), bias)
	} else {
		spread = v.broadcast("bias")
	}
	if step == 2 && v.wide() {
		evens = v.load(evenLanes())
	}
	moved := []Register{dst}
	if each {
		moved = append(moved, src, w, bias)
	}
	// move advances all arrays by a number of bytes of dst.
	move := func(n Op) {
		for _, p := range moved {
			ADDQ(n, p)
		}
		if !each {
			for range step {
				ADDQ(n, src)
			}
		}
	}
	// some computes n vectors and advances past them.
	some := func(n int, label string) {
		acc := make([]VecVirtual, n)
		for i := range acc {
			acc[i] = v.reg()
			if each {
				VMOVUPS(Mem{Base: bias, Disp: i * v.bytes()}, acc[i])
			} else {
				VMOVAPS(spread, acc[i])
			}
		}
		Load(Param("at"), at)
		Load(Param("taps"), taps)
		if each {
			Load(Param("place"), place)
		} else {
			MOVQ(w, y)
		}
		Label(label)
		MOVQ(Mem{Base: at}, x)
		LEAQ(Mem{Base: src, Index: x, Scale: 4}, x)
		if each {
			MOVQ(Mem{Base: place}, y)
			LEAQ(Mem{Base: w, Index: y, Scale: 4}, y)
			ADDQ(Imm(8), place)
			for i := range acc {
				r := v.reg()
				VMOVUPS(Mem{Base: y, Disp: i * v.bytes()}, r)
				VFMADD231PS(Mem{Base: x, Disp: i * v.bytes()}, r, acc[i])
			}
		} else {
			r := v.reg()
			VBROADCASTSS(Mem{Base: y}, r)
			ADDQ(Imm(4), y)
			for i := range acc {
				if step == 1 {
					VFMADD231PS(Mem{Base: x, Disp: i * v.bytes()}, r, acc[i])
					continue
				}
				z := v.reg()
				VMOVUPS(Mem{Base: x, Disp: 2 * i * v.bytes()}, z)
				if second := (Mem{Base: x, Disp: (2*i + 1) * v.bytes()}); v.wide() {
					VPERMT2PS(second, evens, z)
				} else { // the halves are put in order when all taps are added
					VSHUFPS(Imm(0x88), second, z, z)
				}
				VFMADD231PS(z, r, acc[i])
			}
		}
		ADDQ(Imm(8), at)
		DECQ(taps)
		JNE(LabelRef(label))
		for i := range acc {
			if step == 2 && !v.wide() {
				VPERMPD(Imm(0xd8), acc[i], acc[i])
			}
			VMOVUPS(acc[i], Mem{Base: dst, Disp: i * v.bytes()})
		}
		move(U32(uint32(n * v.bytes())))
	}
	// The last four vectors overlap the ones before, because one vector takes as long as four.
	SUBQ(Imm(4), blocks)
	JLT(LabelRef("few"))
	Label("four")
	some(4, "tapOfFour")
	SUBQ(Imm(4), blocks)
	JGE(LabelRef("four"))
	CMPQ(blocks, I8(-4))
	JEQ(LabelRef("end"))
	back := GP64()
	MOVQ(blocks, back)
	SHLQ(U8(uint8(4+v.lanes/8)), back)
	move(back)
	XORQ(blocks, blocks)
	JMP(LabelRef("four"))
	Label("few")
	ADDQ(Imm(4), blocks)
	Label("one")
	some(1, "tap")
	DECQ(blocks)
	JNE(LabelRef("one"))
	Label("end")
	VZEROUPPER()
	RET()
}

// stencilPixels writes the routine for depthwise convolutions with channels last: a pixel is a vector of channels.
func stencilPixels(v vec) {
	TEXT("stencilPixels"+v.name, NOSPLIT,
		"func(dst, src *float32, at *int, taps int, w, bias *float32, step, pixels int)")
	Doc("stencilPixels" + v.name + " is dst[p*lanes+i] = bias[i] + sum_t w[t*lanes+i]*src[at[t]+p*step+i] for p < pixels" +
		" and i < lanes, t in order; taps and pixels > 0.")
	Pragma("noescape")
	dst := Load(Param("dst"), GP64())
	src := Load(Param("src"), GP64())
	step := Load(Param("step"), GP64())
	pixels := Load(Param("pixels"), GP64())
	at, w, taps, bias, x, back := GP64(), GP64(), GP64(), GP64(), GP64(), GP64()
	bases := []Register{x, GP64(), GP64()}
	three := GP64()
	Load(Param("bias"), bias)
	SHLQ(U8(2), step)
	LEAQ(Mem{Base: step, Index: step, Scale: 2}, three)
	// some computes n pixels.
	some := func(n int, label string) {
		acc := make([]VecVirtual, n)
		for i := range acc {
			acc[i] = v.load(Mem{Base: bias})
		}
		Load(Param("at"), at)
		Load(Param("taps"), taps)
		Load(Param("w"), w)
		Label(label)
		MOVQ(Mem{Base: at}, x)
		LEAQ(Mem{Base: src, Index: x, Scale: 4}, x)
		if n > 3 {
			LEAQ(Mem{Base: x, Index: three, Scale: 1}, bases[1])
		}
		if n > 6 {
			LEAQ(Mem{Base: x, Index: three, Scale: 2}, bases[2])
		}
		r := v.load(Mem{Base: w})
		for i := range acc {
			m := Mem{Base: bases[i/3]}
			if i%3 > 0 {
				m.Index, m.Scale = step, uint8(i%3)
			}
			VFMADD231PS(m, r, acc[i])
		}
		ADDQ(Imm(8), at)
		ADDQ(Imm(uint64(v.bytes())), w)
		DECQ(taps)
		JNE(LabelRef(label))
		for i := range acc {
			VMOVUPS(acc[i], Mem{Base: dst, Disp: i * v.bytes()})
		}
	}
	for _, n := range []int{8, 4, 2} {
		name := strconv.Itoa(n)
		next := "fewer" + strconv.Itoa(n/2)
		if n < 8 {
			Label("fewer" + name)
		}
		CMPQ(pixels, Imm(uint64(n)))
		JLT(LabelRef(next))
		Label("pixels" + name)
		some(n, "tap"+name)
		ADDQ(U32(uint32(n*v.bytes())), dst)
		IMUL3Q(Imm(uint64(n)), step, back)
		ADDQ(back, src)
		SUBQ(Imm(uint64(n)), pixels)
		CMPQ(pixels, Imm(uint64(n)))
		JGE(LabelRef("pixels" + name))
		CMPQ(pixels, Imm(0))
		JEQ(LabelRef("end"))
		// The last pixels overlap the ones before.
		SUBQ(Imm(uint64(n)), pixels)
		MOVQ(pixels, back)
		SHLQ(U8(uint8(4+v.lanes/8)), back)
		ADDQ(back, dst)
		IMULQ(step, pixels)
		ADDQ(pixels, src)
		MOVQ(U32(uint32(n)), pixels)
		JMP(LabelRef("pixels" + name))
	}
	Label("fewer1")
	some(1, "tap1")
	Label("end")
	VZEROUPPER()
	RET()
}

// stencilLines writes the routine that computes stencils of several lines of an image, of whole vectors. With a step of
// 2 it reads every second element. Masks remove what taps read before and after a line.
func stencilLines(v vec, step int) {
	name, read, more := "stencilLines"+v.name, "i", ""
	if step == 2 {
		name, read, more = "stencilEvenLines"+v.name, "2*i", " It reads one element more."
	}
	TEXT(name, NOSPLIT, "func(dst *float32, ldd int, src *float32, lds int, at *int, taps int, w *float32, bias float32,"+
		" first, last, inner *float32, blocks, lines int)")
	Doc(name + " is dst[l*ldd+i] = bias + sum_t w[t]*(src[l*lds+at[t]+" + read + "] & mask) for l < lines and i <" +
		" blocks*lanes, t in order, in ascending order of l. The mask of the first vector is first[t*lanes+i], that of the" +
		" last one last[t*lanes+i%lanes], and of both both; inner has only ones. taps, blocks and lines > 0." + more)
	Pragma("noescape")
	dst := Load(Param("dst"), GP64())
	src := Load(Param("src"), GP64())
	lines := Load(Param("lines"), GP64())
	spread := v.broadcast("bias")
	var evens VecVirtual
	if step == 2 && v.wide() {
		evens = v.load(evenLanes())
	}
	at, w, taps, x, from, to, left := GP64(), GP64(), GP64(), GP64(), GP64(), GP64(), GP64()
	low, high := GP64(), GP64()
	Label("line")
	MOVQ(src, from)
	MOVQ(dst, to)
	Load(Param("blocks"), left)
	Load(Param("first"), low)
	Label("group")
	Load(Param("inner"), high)
	CMPQ(left, Imm(4))
	JG(LabelRef("more"))
	Load(Param("last"), high)
	Label("more")
	Load(Param("at"), at)
	Load(Param("taps"), taps)
	Load(Param("w"), w)
	for n := 1; n <= 4; n++ {
		label := strconv.Itoa(n)
		if n > 1 {
			Label("group" + label)
		}
		if n < 4 {
			CMPQ(left, Imm(uint64(n)))
			JNE(LabelRef("group" + strconv.Itoa(n+1)))
		}
		acc := v.regs(n)
		for i := range acc {
			VMOVAPS(spread, acc[i])
		}
		Label("tap" + label)
		MOVQ(Mem{Base: at}, x)
		LEAQ(Mem{Base: from, Index: x, Scale: 4}, x)
		r := v.reg()
		VBROADCASTSS(Mem{Base: w}, r)
		for i := range acc {
			edges := []Register(nil)
			if i == 0 {
				edges = append(edges, low)
			}
			if i == n-1 {
				edges = append(edges, high)
			}
			m := v.pixels(x, i, step, evens, edges)
			VFMADD231PS(m, r, acc[i])
		}
		for _, p := range []Register{at, w, low, high} {
			k := v.bytes()
			switch p {
			case at:
				k = 8
			case w:
				k = 4
			}
			ADDQ(Imm(uint64(k)), p)
		}
		DECQ(taps)
		JNE(LabelRef("tap" + label))
		for i := range acc {
			if step == 2 && !v.wide() && i > 0 && i < n-1 {
				VPERMPD(Imm(0xd8), acc[i], acc[i])
			}
			VMOVUPS(acc[i], Mem{Base: to, Disp: i * v.bytes()})
		}
		if n < 4 {
			JMP(LabelRef("next"))
		}
	}
	Load(Param("inner"), low)
	ADDQ(U32(uint32(4*v.bytes())), to)
	ADDQ(U32(uint32(4*step*v.bytes())), from)
	SUBQ(Imm(4), left)
	JG(LabelRef("group"))
	Label("next")
	Load(Param("lds"), x)
	LEAQ(Mem{Base: src, Index: x, Scale: 4}, src)
	Load(Param("ldd"), x)
	LEAQ(Mem{Base: dst, Index: x, Scale: 4}, dst)
	DECQ(lines)
	JNE(LabelRef("line"))
	VZEROUPPER()
	RET()
}

// pixels returns vector i of what a tap reads of a line at x, or of every second element. Where there are masks, it
// applies them. Otherwise, for AVX2, the halves of every second element are not in order.
func (v vec) pixels(x Register, i, step int, evens VecVirtual, masks []Register) Op {
	m := Mem{Base: x, Disp: step * i * v.bytes()}
	if step == 1 && len(masks) == 0 {
		return m
	}
	z := v.load(m)
	second := Mem{Base: x, Disp: (2*i + 1) * v.bytes()}
	switch {
	case step == 2 && v.wide():
		VPERMT2PS(second, evens, z)
	case step == 2:
		VSHUFPS(Imm(0x88), second, z, z)
		if len(masks) > 0 {
			VPERMPD(Imm(0xd8), z, z)
		}
	}
	for _, mask := range masks {
		v.and(Mem{Base: mask}, z, z)
	}
	return z
}
