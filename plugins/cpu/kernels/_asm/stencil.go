package main

import (
	"strconv"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

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
