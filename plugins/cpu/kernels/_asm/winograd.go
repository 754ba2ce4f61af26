package main

import (
	"strconv"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// genWinograd writes the routines of convolutions by Winograd's algorithm F(2x2, 3x3).
func genWinograd(v vec) {
	winogradInput(v)
	winogradOutput(v)
	winogradSplit(v)
}

// winogradInput writes the routine that transforms tiles of 4x4 pixels. The pixels come from a copy in which those of
// even and odd lines and columns are apart, so that pixel (y, x) of adjacent tiles is adjacent.
func winogradInput(v vec) {
	name := "winogradInput" + v.name
	TEXT(name, NOSPLIT, "func(dst *float32, apart, ldd int, src *float32, plane, line, channel, channels int,"+
		" runs *int, n, wide int)")
	Doc(name + " is dst[(4*i+j)*apart+c*ldd+runs[2*k]:][:wide] = element (i, j) of B^T d B, where d is the tile with" +
		" d[y][x] = src[c*channel+runs[2*k+1]+(y%2*2+x%2)*plane+y/2*line+x/2:][:wide], for c < channels and k < n, in" +
		" ascending c and then k; wide is 4, 8 or 16 and at most lanes; channels and n > 0.")
	Pragma("noescape")
	dst := Load(Param("dst"), GP64())
	apart := Load(Param("apart"), GP64())
	src := Load(Param("src"), GP64())
	plane := Load(Param("plane"), GP64())
	channels := Load(Param("channels"), GP64())
	runs := Load(Param("runs"), GP64())
	n := Load(Param("n"), GP64())
	SHLQ(U8(2), apart)
	SHLQ(U8(2), plane)
	SHLQ(U8(4), n)
	ADDQ(n, runs) // the end; run counts up to it
	NEGQ(n)
	threePlanes, threeApart := GP64(), GP64()
	LEAQ(Mem{Base: plane, Index: plane, Scale: 2}, threePlanes)
	LEAQ(Mem{Base: apart, Index: apart, Scale: 2}, threeApart)
	run, to, top, bottom := GP64(), GP64(), GP64(), GP64()
	// pixel returns the address of pixel (y, x) of the tiles.
	pixel := func(y, x int) Mem {
		m := Mem{Base: top, Disp: 4 * (x / 2)}
		if y > 1 {
			m.Base = bottom
		}
		switch y%2*2 + x%2 {
		case 1:
			m.Index, m.Scale = plane, 1
		case 2:
			m.Index, m.Scale = plane, 2
		case 3:
			m.Index, m.Scale = threePlanes, 1
		}
		return m
	}
	for _, w := range []struct {
		lanes int
		reg   func() VecVirtual
	}{{4, func() VecVirtual { return XMM() }}, {8, func() VecVirtual { return YMM() }},
		{16, func() VecVirtual { return ZMM() }}} {
		if w.lanes > v.lanes {
			break
		}
		suffix := strconv.Itoa(w.lanes)
		if w.lanes > 4 {
			Label("wide" + suffix)
		}
		if w.lanes < v.lanes {
			wide := Load(Param("wide"), GP64())
			CMPQ(wide, Imm(uint64(w.lanes)))
			JNE(LabelRef("wide" + strconv.Itoa(2*w.lanes)))
		}
		Label("channel" + suffix)
		MOVQ(n, run)
		Label("run" + suffix)
		MOVQ(Mem{Base: runs, Index: run, Scale: 1}, to)
		MOVQ(Mem{Base: runs, Index: run, Scale: 1, Disp: 8}, top)
		LEAQ(Mem{Base: dst, Index: to, Scale: 4}, to)
		LEAQ(Mem{Base: src, Index: top, Scale: 4}, top)
		Load(Param("line"), bottom)
		LEAQ(Mem{Base: top, Index: bottom, Scale: 4}, bottom)
		for i, rows := range [4][2]int{{0, 2}, {1, 2}, {2, 1}, {1, 3}} {
			var t [4]VecVirtual
			for x := range t {
				t[x] = w.reg()
				VMOVUPS(pixel(rows[0], x), t[x])
				if i == 1 {
					VADDPS(pixel(rows[1], x), t[x], t[x])
				} else {
					VSUBPS(pixel(rows[1], x), t[x], t[x])
				}
			}
			r := w.reg()
			VSUBPS(t[2], t[0], t[0])
			VADDPS(t[2], t[1], r)
			VSUBPS(t[1], t[2], t[2])
			VSUBPS(t[3], t[1], t[1])
			VMOVUPS(t[0], Mem{Base: to})
			VMOVUPS(r, Mem{Base: to, Index: apart, Scale: 1})
			VMOVUPS(t[2], Mem{Base: to, Index: apart, Scale: 2})
			VMOVUPS(t[1], Mem{Base: to, Index: threeApart, Scale: 1})
			if i < 3 {
				LEAQ(Mem{Base: to, Index: apart, Scale: 4}, to)
			}
		}
		ADDQ(Imm(16), run)
		JNE(LabelRef("run" + suffix))
		Load(Param("channel"), top)
		LEAQ(Mem{Base: src, Index: top, Scale: 4}, src)
		Load(Param("ldd"), to)
		LEAQ(Mem{Base: dst, Index: to, Scale: 4}, dst)
		DECQ(channels)
		JNE(LabelRef("channel" + suffix))
		VZEROUPPER()
		RET()
	}
}

// winogradOutput writes the routine that transforms products back to tiles of 2x2 elements of the result.
func winogradOutput(v vec) {
	var low, high Mem
	if v.wide() {
		low = lanesConst("winogradLow", 16, func(l int) uint32 { return uint32(l/2 + l%2*16) })
		high = lanesConst("winogradHigh", 16, func(l int) uint32 { return uint32(l/2 + l%2*16 + 8) })
	}
	name := "winogradOutput" + v.name
	TEXT(name, NOSPLIT, "func(dst *float32, line int, src *float32, apart int, bias float32, blocks int)")
	Doc(name + " is dst[y*line+2*t+x] = bias + element (y, x) of A^T m A, where m[i][j] = src[(4*i+j)*apart+t], for" +
		" t < blocks*lanes and x, y < 2; blocks > 0.")
	Pragma("noescape")
	dst := Load(Param("dst"), GP64())
	line := Load(Param("line"), GP64())
	src := Load(Param("src"), GP64())
	apart := Load(Param("apart"), GP64())
	blocks := Load(Param("blocks"), GP64())
	SHLQ(U8(2), line)
	SHLQ(U8(2), apart)
	bias := v.broadcast("bias")
	var lanes [2]VecVirtual
	if v.wide() {
		lanes = [2]VecVirtual{v.load(low), v.load(high)}
	}
	three := GP64()
	LEAQ(Mem{Base: apart, Index: apart, Scale: 2}, three)
	bases := [4]Register{src, GP64(), GP64(), GP64()}
	four := GP64()
	MOVQ(apart, four)
	SHLQ(U8(2), four)
	for i := 1; i < 4; i++ {
		LEAQ(Mem{Base: bases[i-1], Index: four, Scale: 1}, bases[i])
	}
	product := func(i, j int) Mem {
		m := Mem{Base: bases[i]}
		switch j {
		case 1, 2:
			m.Index, m.Scale = apart, uint8(j)
		case 3:
			m.Index, m.Scale = three, 1
		}
		return m
	}
	Label("loop")
	var s [2][4]VecVirtual
	for j := range 4 {
		a, b := v.reg(), v.reg()
		VMOVUPS(product(1, j), a)
		VSUBPS(product(2, j), a, b)
		VADDPS(product(2, j), a, a)
		VADDPS(product(0, j), a, a)
		VSUBPS(product(3, j), b, b)
		s[0][j], s[1][j] = a, b
	}
	for y := range 2 {
		t := s[y]
		even, odd := v.reg(), v.reg()
		VSUBPS(t[2], t[1], odd)
		VADDPS(t[2], t[1], even)
		VADDPS(t[0], even, even)
		VSUBPS(t[3], odd, odd)
		VADDPS(bias, even, even)
		VADDPS(bias, odd, odd)
		var to [2]Mem
		for i := range to {
			to[i] = Mem{Base: dst, Disp: i * v.bytes()}
			if y == 1 {
				to[i].Index, to[i].Scale = line, 1
			}
		}
		r := v.reg()
		if v.wide() {
			VMOVAPS(even, r)
			VPERMT2PS(odd, lanes[0], r)
			VPERMT2PS(odd, lanes[1], even)
			VMOVUPS(r, to[0])
			VMOVUPS(even, to[1])
			continue
		}
		VUNPCKLPS(odd, even, r)
		VUNPCKHPS(odd, even, even)
		VPERM2F128(Imm(0x20), even, r, odd)
		VPERM2F128(Imm(0x31), even, r, r)
		VMOVUPS(odd, to[0])
		VMOVUPS(r, to[1])
	}
	for _, b := range bases {
		ADDQ(Imm(uint64(v.bytes())), b)
	}
	ADDQ(U32(uint32(2*v.bytes())), dst)
	DECQ(blocks)
	JNE(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// winogradSplit writes the routine that copies even and odd pixels of lines apart.
func winogradSplit(v vec) {
	name := "winogradSplit" + v.name
	TEXT(name, NOSPLIT, "func(even, odd *float32, ldd int, src *float32, lds, lines, pairs int, most, sum *float32)")
	Doc(name + " is even[l*ldd+i] = src[l*lds+2*i] and odd[l*ldd+i] = src[l*lds+2*i+1] for l < lines and i < pairs." +
		" It updates the largest magnitudes in most[:lanes+4] and adds magnitudes to sum[:lanes+4]. lines and pairs > 0." +
		" A NaN makes a sum NaN.")
	Pragma("noescape")
	even := Load(Param("even"), GP64())
	odd := Load(Param("odd"), GP64())
	ldd := Load(Param("ldd"), GP64())
	src := Load(Param("src"), GP64())
	lds := Load(Param("lds"), GP64())
	lines := Load(Param("lines"), GP64())
	SHLQ(U8(2), ldd)
	SHLQ(U8(2), lds)
	mask := v.load(bitsConst(0x7fffffff))
	var evens, odds VecVirtual
	if v.wide() {
		evens = v.load(evenLanes())
		odds = v.load(lanesConst("oddLanes", 16, func(l int) uint32 { return uint32(2*l + 1) }))
	}
	kept, smallMask := GP64(), XMM()
	Load(Param("most"), kept)
	most, smallMost := v.load(Mem{Base: kept}), XMM()
	VMOVUPS(Mem{Base: kept, Disp: v.bytes()}, smallMost)
	Load(Param("sum"), kept)
	sum, smallSum := v.load(Mem{Base: kept}), XMM()
	VMOVUPS(Mem{Base: kept, Disp: v.bytes()}, smallSum)
	VMOVUPS(bitsConst(0x7fffffff), smallMask)
	second := v.zero()
	measure := func(x VecVirtual, total VecVirtual) {
		r := v.reg()
		v.and(x, mask, r)
		VMAXPS(r, most, most)
		VADDPS(r, total, total)
	}
	measureFew := func(x VecVirtual) {
		r := XMM()
		VANDPS(x, smallMask, r)
		VMAXPS(r, smallMost, smallMost)
		VADDPS(r, smallSum, smallSum)
	}
	from, pairs, i := GP64(), GP64(), GP64()
	Label("line")
	Load(Param("pairs"), pairs)
	MOVQ(src, from)
	XORQ(i, i)
	SUBQ(Imm(uint64(v.lanes)), pairs)
	JLT(LabelRef("few"))
	Label("vector")
	a, b := v.load(Mem{Base: from}), v.load(Mem{Base: from, Disp: v.bytes()})
	measure(a, sum)
	measure(b, second)
	r := v.reg()
	if v.wide() {
		VMOVAPS(a, r)
		VPERMT2PS(b, evens, r)
		VPERMT2PS(b, odds, a)
	} else {
		VSHUFPS(Imm(0x88), b, a, r)
		VSHUFPS(Imm(0xdd), b, a, a)
		VPERMPD(Imm(0xd8), r, r)
		VPERMPD(Imm(0xd8), a, a)
	}
	VMOVUPS(r, Mem{Base: even, Index: i, Scale: 4})
	VMOVUPS(a, Mem{Base: odd, Index: i, Scale: 4})
	ADDQ(Imm(uint64(v.lanes)), i)
	ADDQ(U32(uint32(2*v.bytes())), from)
	SUBQ(Imm(uint64(v.lanes)), pairs)
	JGE(LabelRef("vector"))
	Label("few")
	ADDQ(Imm(uint64(v.lanes-4)), pairs)
	JLT(LabelRef("single"))
	Label("four")
	x, y, z := XMM(), XMM(), XMM()
	VMOVUPS(Mem{Base: from}, x)
	VMOVUPS(Mem{Base: from, Disp: 16}, y)
	measureFew(x)
	measureFew(y)
	VSHUFPS(Imm(0x88), y, x, z)
	VSHUFPS(Imm(0xdd), y, x, x)
	VMOVUPS(z, Mem{Base: even, Index: i, Scale: 4})
	VMOVUPS(x, Mem{Base: odd, Index: i, Scale: 4})
	ADDQ(Imm(4), i)
	ADDQ(Imm(32), from)
	SUBQ(Imm(4), pairs)
	JGE(LabelRef("four"))
	Label("single")
	ADDQ(Imm(4), pairs)
	JEQ(LabelRef("next"))
	Label("pair")
	for k, to := range []Register{even, odd} {
		VMOVSS(Mem{Base: from, Disp: 4 * k}, x)
		VMOVSS(x, Mem{Base: to, Index: i, Scale: 4})
		measureFew(x)
	}
	INCQ(i)
	ADDQ(Imm(8), from)
	DECQ(pairs)
	JNE(LabelRef("pair"))
	Label("next")
	ADDQ(lds, src)
	ADDQ(ldd, even)
	ADDQ(ldd, odd)
	DECQ(lines)
	JNE(LabelRef("line"))
	VADDPS(second, sum, sum)
	Load(Param("most"), kept)
	VMOVUPS(most, Mem{Base: kept})
	VMOVUPS(smallMost, Mem{Base: kept, Disp: v.bytes()})
	Load(Param("sum"), kept)
	VMOVUPS(sum, Mem{Base: kept})
	VMOVUPS(smallSum, Mem{Base: kept, Disp: v.bytes()})
	VZEROUPPER()
	RET()
}
