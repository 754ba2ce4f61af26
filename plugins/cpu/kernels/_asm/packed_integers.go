package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// genPackedIntegers writes routines that unpack blocks of weights to bytes and scales, that round activations to bytes,
// and that multiply both.
func genPackedIntegers(v vec) {
	for _, f := range integerFormats {
		if !v.wide() {
			unpackIntegers(f)
		}
	}
	v.roundRow()
	if v.wide() {
		integerTiles(false)
		integerTiles(true)
		scales8_0()
	}
}

// genPackedDecode writes decoders of the formats for which genPacked writes none.
func genPackedDecode(v vec) {
	for _, f := range integerFormats {
		if f.decodes {
			v.decodeIntegers(f)
		}
	}
}

// integerFormat writes the code for one block.
type integerFormat struct {
	name                 string
	values, bytes, group int // of a block: values, size, values that share a scale
	body                 func(b *integerBlock)
	lows, decodes        bool // lows: value = scale*q - low; otherwise scale*q. decodes: genPacked writes no decoder
}

var integerFormats = []integerFormat{
	{"Q4_0", 32, 18, 32, nibbles4_0, false, false}, {"Q4_1", 32, 20, 32, nibbles4_1, true, true},
	{"Q5_0", 32, 22, 32, nibbles5_0, false, true}, {"Q5_1", 32, 24, 32, nibbles5_1, true, true},
	{"Q8_0", 32, 34, 32, bytes8_0, false, false}, {"Q2_K", 256, 84, 16, bits2_K, true, true},
	{"Q3_K", 256, 110, 16, bits3_K, false, true}, {"Q4_K", 256, 144, 32, nibbles4_K, true, false},
	{"Q5_K", 256, 176, 32, nibbles5_K, true, true}, {"Q6_K", 256, 210, 16, bits6_K, false, false},
	{"Q8_K", 256, 292, 32, bytes8_K, false, true}, {"IQ4_NL", 32, 18, 32, lookup4_NL, false, true},
	{"IQ4_XS", 256, 136, 32, lookup4_XS, false, true}, {"MXFP4", 32, 17, 32, lookupFP4, false, true},
}

// integerBlock says where a block lies and where its parts go.
type integerBlock struct {
	w, q, scale, low Register // pointers to blocks, integers, and a scale and a low for each group
	off              int      // offset of the block from w, in bytes
	// handles 32 integers, the first of which has index i; their scales are stored before
	put func(i int, x VecVirtual)
}

func (b *integerBlock) at(i int) Mem { return Mem{Base: b.w, Disp: b.off + i} }

// halfAt returns the f16 at byte i of the block as the bits of a float32.
func (b *integerBlock) halfAt(i int) Register {
	r := GP32()
	VMOVD(b.broadcastHalf(i).AsX(), r)
	return r
}

func (b *integerBlock) putScale(r Register, at Register) { MOVL(r, Mem{Base: at}) }

// putNegative stores -r as the low of a group. It is for formats that add a minimum.
func (b *integerBlock) putNegative(r Register) {
	XORL(U32(0x80000000), r)
	MOVL(r, Mem{Base: b.low})
}

// broadcastHalf returns the f16 at byte i of the block in all lanes.
func (b *integerBlock) broadcastHalf(i int) VecVirtual {
	y := YMM()
	vec{8, "AVX2"}.broadcastHalf(b.at(i), y)
	return y
}

// shiftRight shifts words by n bits, to the left if n < 0. The caller masks off the bits that cross from one byte to
// the next.
func shiftRight(x VecVirtual, n int) VecVirtual {
	if n == 0 {
		return x
	}
	r := YMM()
	if n < 0 {
		VPSLLW(Imm(uint64(-n)), x, r)
	} else {
		VPSRLW(Imm(uint64(n)), x, r)
	}
	return r
}

func bytesConst(b uint32) Mem { return bitsConst(b * 0x01010101) }

func masked(x VecVirtual, mask uint32) VecVirtual {
	r := YMM()
	VPAND(bytesConst(mask), x, r)
	return r
}

func less(x VecVirtual, n uint32) VecVirtual {
	r := YMM()
	VPSUBB(bytesConst(n), x, r)
	return r
}

// halves unpacks the 16 bytes at i to 32 values: the low nibbles, then the high ones.
func (b *integerBlock) halves(i int) VecVirtual {
	x, high, y := XMM(), XMM(), YMM()
	VMOVDQU(b.at(i), x)
	VPSRLW(Imm(4), x, high)
	VINSERTI128(Imm(1), high, x.AsY(), y)
	return masked(y, 15)
}

func nibbles4_0(b *integerBlock) {
	b.putScale(b.halfAt(0), b.scale)
	b.put(0, less(b.halves(2), 8))
}

func nibbles4_1(b *integerBlock) {
	b.putScale(b.halfAt(0), b.scale)
	b.putNegative(b.halfAt(2))
	b.put(0, b.halves(4))
}

// fifths returns 32 bytes that are 16 where the dword at i has a bit set: the fifth bits of 32 values.
func (b *integerBlock) fifths(i int) VecVirtual {
	x := YMM()
	VPBROADCASTD(b.at(i), x)
	VPSHUFB(spreadBytes(), x, x)
	VPAND(spreadBits(), x, x)
	VPCMPEQB(spreadBits(), x, x)
	return masked(x, 16)
}

var spread [2]Mem

// spreadBytes returns a shuffle that copies byte i/8 to byte i. Byte i of spreadBits has bit i%8 set.
func spreadBytes() Mem {
	if spread[0].Base == nil {
		spread[0] = GLOBL("spreadBytes", 8|16)
		for i := range 8 {
			DATA(4*i, U32(uint32(i/2)*0x01010101))
		}
	}
	return spread[0]
}

func spreadBits() Mem {
	if spread[1].Base == nil {
		spread[1] = GLOBL("spreadBits", 8|16)
		for i := range 8 {
			DATA(4*i, U32([]uint32{0x08040201, 0x80402010}[i%2]))
		}
	}
	return spread[1]
}

func nibbles5_0(b *integerBlock) {
	b.putScale(b.halfAt(0), b.scale)
	x := b.halves(6)
	VPOR(b.fifths(2), x, x)
	b.put(0, less(x, 16))
}

func nibbles5_1(b *integerBlock) {
	b.putScale(b.halfAt(0), b.scale)
	b.putNegative(b.halfAt(2))
	x := b.halves(8)
	VPOR(b.fifths(4), x, x)
	b.put(0, x)
}

func bytes8_0(b *integerBlock) {
	b.putScale(b.halfAt(0), b.scale)
	x := YMM()
	VMOVDQU(b.at(2), x)
	b.put(0, x)
}

func bytes8_K(b *integerBlock) {
	d := YMM()
	VBROADCASTSS(b.at(0), d)
	VMOVUPS(d, Mem{Base: b.scale})
	for i := 0; i < 256; i += 32 {
		x := YMM()
		VMOVDQU(b.at(4+i), x)
		b.put(i, x)
	}
}

// scales16 stores the 16 signed bytes of s times d.
func (b *integerBlock) scales16(s VecVirtual, d VecVirtual, at Register) {
	for h := range 2 {
		y := YMM()
		if h == 1 {
			VPSRLDQ(Imm(8), s, s)
		}
		VPMOVSXBD(s, y)
		VCVTDQ2PS(y, y)
		VMULPS(d, y, y)
		VMOVUPS(y, Mem{Base: at, Disp: 32 * h})
	}
}

func bits2_K(b *integerBlock) {
	s, low := XMM(), XMM()
	VMOVDQU(b.at(0), s)
	VPSRLW(Imm(4), s, low)
	VPAND(bytesConst(15), s, s)
	VPAND(bytesConst(15), low, low)
	b.scales16(s, b.broadcastHalf(80), b.scale)
	b.scales16(low, b.broadcastHalf(82), b.low)
	for h := range 2 {
		x := YMM()
		VMOVDQU(b.at(16+32*h), x)
		for j := range 4 {
			b.put(128*h+32*j, masked(shiftRight(x, 2*j), 3))
		}
	}
}

var shifts3_K Mem

func bits3_K(b *integerBlock) {
	if shifts3_K.Base == nil {
		shifts3_K = GLOBL("shifts3_K", 8|16)
		for i := range 4 {
			DATA(4*i, U32(uint32(2*i)))
		}
	}
	// Eight bytes hold the low four bits of 16 scales. Each byte of the last dword holds the high two bits of four
	// scales.
	low, high, upper := XMM(), XMM(), XMM()
	VMOVQ(b.at(96), low)
	VPSRLW(Imm(4), low, high)
	VPUNPCKLQDQ(high, low, low)
	VPAND(bytesConst(15), low, low)
	VPBROADCASTD(b.at(104), upper)
	VPSRLVD(shifts3_K, upper, upper)
	VPAND(bytesConst(3), upper, upper)
	VPSLLW(Imm(4), upper, upper)
	VPOR(upper, low, low)
	VPSUBB(bytesConst(32), low, low)
	b.scales16(low, b.broadcastHalf(108), b.scale)
	mask := YMM()
	VMOVDQU(b.at(0), mask)
	for h := range 2 {
		x := YMM()
		VMOVDQU(b.at(32+32*h), x)
		for j := range 4 {
			q, third := masked(shiftRight(x, 2*j), 3), masked(shiftRight(mask, 4*h+j-2), 4)
			VPOR(third, q, q)
			b.put(128*h+32*j, less(q, 4))
		}
	}
}

// scalesAndMinimums stores the scales and the lows of a block of q4_K or q5_K.
func (b *integerBlock) scalesAndMinimums() {
	p := &packedBlock{vec: vec{8, "AVX2"}, w: b.w}
	s, m := p.sixes()
	VMULPS(b.broadcastHalf(0), s, s)
	VMOVUPS(s, Mem{Base: b.scale})
	VMULPS(b.broadcastHalf(2), m, m)
	VMOVUPS(m, Mem{Base: b.low})
}

func nibbles4_K(b *integerBlock) {
	b.scalesAndMinimums()
	for c := range 4 {
		x := YMM()
		VMOVDQU(b.at(16+32*c), x)
		b.put(64*c, masked(x, 15))
		b.put(64*c+32, masked(shiftRight(x, 4), 15))
	}
}

func nibbles5_K(b *integerBlock) {
	b.scalesAndMinimums()
	high := YMM()
	VMOVDQU(b.at(16), high)
	for c := range 4 {
		x := YMM()
		VMOVDQU(b.at(48+32*c), x)
		for h := range 2 {
			q, fifth := masked(shiftRight(x, 4*h), 15), masked(shiftRight(high, 2*c+h-4), 16)
			VPOR(fifth, q, q)
			b.put(64*c+32*h, q)
		}
	}
}

func bits6_K(b *integerBlock) {
	s := XMM()
	VMOVDQU(b.at(192), s)
	b.scales16(s, b.broadcastHalf(208), b.scale)
	for h := range 2 {
		high := YMM()
		VMOVDQU(b.at(128+32*h), high)
		for j := range 4 {
			x := YMM()
			VMOVDQU(b.at(64*h+32*(j%2)), x)
			q, upper := masked(shiftRight(x, j/2*4), 15), masked(shiftRight(high, 2*j-4), 0x30)
			VPOR(upper, q, q)
			b.put(128*h+32*j, less(q, 32))
		}
	}
}

var lookups = map[string]Mem{}

// lookup returns 32 values of a table. x has their indices.
func lookup(name string, table [16]int8, x VecVirtual) VecVirtual {
	m, ok := lookups[name]
	if !ok {
		m = GLOBL(name, 8|16)
		for i := range 32 {
			DATA(i, U8(uint8(table[i%16])))
		}
		lookups[name] = m
	}
	t := YMM()
	VMOVDQU(m, t)
	VPSHUFB(x, t, t)
	return t
}

var iq4 = [16]int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

func lookup4_NL(b *integerBlock) {
	b.putScale(b.halfAt(0), b.scale)
	b.put(0, lookup("iq4", iq4, b.halves(2)))
}

// lookup4_XS: the scales have four bits each in the dword at 4, and two more in the word at 2.
func lookup4_XS(b *integerBlock) {
	low, high := GP32(), GP32()
	MOVL(b.at(4), low)
	MOVWLZX(b.at(2), high)
	d := b.broadcastHalf(0)
	s, u := YMM(), YMM()
	x := XMM()
	VMOVD(low, x)
	VPBROADCASTD(x, s)
	y := XMM()
	VMOVD(high, y)
	VPBROADCASTD(y, u)
	if shifts4_XS[0].Base == nil {
		shifts4_XS[0], shifts4_XS[1] = GLOBL("shiftsLow4_XS", 8|16), Mem{}
		for i := range 8 {
			DATA(4*i, U32(uint32(4*i)))
		}
		shifts4_XS[1] = GLOBL("shiftsHigh4_XS", 8|16)
		for i := range 8 {
			DATA(4*i, U32(uint32(2*i)))
		}
	}
	VPSRLVD(shifts4_XS[0], s, s)
	VPAND(bitsConst(15), s, s)
	VPSRLVD(shifts4_XS[1], u, u)
	VPAND(bitsConst(3), u, u)
	VPSLLD(Imm(4), u, u)
	VPOR(u, s, s)
	VPSUBD(bitsConst(32), s, s)
	VCVTDQ2PS(s, s)
	VMULPS(d, s, s)
	VMOVUPS(s, Mem{Base: b.scale})
	for g := range 8 {
		b.put(32*g, lookup("iq4", iq4, b.halves(8+16*g)))
	}
}

var shifts4_XS [2]Mem

func lookupFP4(b *integerBlock) {
	e, small := GP32(), GP32() // 2^(e-128), of which the first two are subnormal
	MOVBLZX(b.at(0), ECX)
	MOVL(U32(0x00200000), small)
	SHLL(CL, small)
	MOVL(ECX, e)
	DECL(e)
	SHLL(Imm(23), e)
	CMPL(ECX, Imm(2))
	CMOVLCS(small, e)
	b.putScale(e, b.scale)
	b.put(0, lookup("fp4", [16]int8{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}, b.halves(1)))
}

func unpackIntegers(f integerFormat) {
	name := "unpack" + f.name
	put := func(b *integerBlock, i int, x VecVirtual) { VMOVDQU(x, Mem{Base: b.q, Disp: i}) }
	writeUnpack(f, name, 1, put, name+unpackDoc)
}

const unpackDoc = " unpacks blocks of some columns: q to integers, scale and low to one number for each group (see integerFormat)."

// writeUnpack writes a routine that unpacks blocks. put stores 32 integers, from index i on, in width bytes each.
func writeUnpack(f integerFormat, name string, width int, put func(b *integerBlock, i int, x VecVirtual),
	doc ...string) {
	TEXT(name, NOSPLIT, "func(q *int8, scale, low *float32, w *byte, blocks, columns, stride, stepQ, stepScale int)")
	Doc(append(doc, "From one column to the next are stride, stepQ and stepScale bytes. blocks, columns > 0.")...)
	Pragma("noescape")
	b := &integerBlock{w: GP64(), q: GP64(), scale: GP64(), low: GP64()}
	n := GP64()
	Label("column")
	MOVQ(arg("w"), b.w)
	MOVQ(arg("q"), b.q)
	MOVQ(arg("scale"), b.scale)
	MOVQ(arg("low"), b.low)
	MOVQ(arg("blocks"), n)
	b.put = func(i int, x VecVirtual) { put(b, i, x) }
	Label("blocks")
	f.body(b)
	ADDQ(U32(uint32(f.bytes)), b.w)
	ADDQ(U32(uint32(width*f.values)), b.q)
	ADDQ(U32(uint32(f.values/f.group*4)), b.scale)
	ADDQ(U32(uint32(f.values/f.group*4)), b.low)
	DECQ(n)
	JNE(LabelRef("blocks"))
	MOVQ(arg("stride"), b.w)
	MOVQ(arg("stepQ"), b.q)
	MOVQ(arg("stepScale"), b.scale)
	ADDQ(b.w, arg("w"))
	ADDQ(b.q, arg("q"))
	ADDQ(b.scale, arg("scale"))
	ADDQ(b.scale, arg("low"))
	DECQ(arg("columns"))
	JNE(LabelRef("column"))
	VZEROUPPER()
	RET()
}

// decodeIntegers writes the decoder of a format.
func (v vec) decodeIntegers(f integerFormat) {
	name := "decode" + f.name + v.name
	TEXT(name, NOSPLIT, "func(dst *float32, w *byte, blocks int)")
	Doc(name + " sets dst to the values of blocks, each rounded once. blocks > 0.")
	Pragma("noescape")
	room := AllocLocal(160) // 16 scales, 16 lows, 32 integers
	b := &integerBlock{w: Load(Param("w"), GP64()), scale: GP64(), low: GP64()}
	LEAQ(room, b.scale)
	LEAQ(room.Offset(64), b.low)
	dst, n := Load(Param("dst"), GP64()), Load(Param("blocks"), GP64())
	put := func(i int, x VecVirtual) {
		VMOVDQU(x, room.Offset(128))
		s, m := v.reg(), v.reg()
		for at := 0; at < 32; at += v.lanes {
			if at%f.group == 0 {
				VBROADCASTSS(room.Offset((i+at)/f.group*4), s)
				if f.lows {
					VBROADCASTSS(room.Offset(64+(i+at)/f.group*4), m)
				}
			}
			y := v.reg()
			VPMOVSXBD(room.Offset(128+at), y)
			VCVTDQ2PS(y, y)
			if f.lows {
				VFMSUB213PS(m, s, y)
			} else {
				VMULPS(s, y, y)
			}
			VMOVUPS(y, Mem{Base: dst, Disp: 4 * (i + at)})
		}
	}
	macro := fmt.Sprintf("SCALE%d_%s", f.group, v.name)
	if f.lows {
		macro += "_LOW"
	}
	b.put = func(i int, x VecVirtual) {
		macroUse(macro, macro+" stores the values of the 32 integers of x, the first of which has index 32*n.",
			[]param{{"n", i / 32}, {"dst", dst}, {"x", x}}, func() { put(i, x) })
	}
	Label("blocks")
	f.body(b)
	ADDQ(U32(uint32(f.bytes)), b.w)
	ADDQ(U32(uint32(4*f.values)), dst)
	DECQ(n)
	JNE(LabelRef("blocks"))
	VZEROUPPER()
	RET()
}
