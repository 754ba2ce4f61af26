package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// genPackedIntegers writes what unpacks blocks of weights to bytes and scales, what rounds activations to bytes, and products of both.
func genPackedIntegers(v vec) {
	for _, f := range integerFormats {
		if !v.wide() {
			unpackIntegers(f)
		}
		if f.decodes {
			v.decodeIntegers(f)
		}
	}
	v.roundRow()
	if v.wide() {
		integerTiles(false)
		integerTiles(true)
		integerVectors(false)
		integerVectors(true)
	}
}

// integerFormat writes the code for one block.
type integerFormat struct {
	name                 string
	values, bytes, group int // group: values with a scale
	body                 func(b *integerBlock)
	lows, decodes        bool // values have something subtracted; the decoder is not that of genPacked
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

// integerBlock is where a block comes from and where its parts go to.
type integerBlock struct {
	w, half, q, scale, low Register
	put                    func(i int, x VecVirtual) // takes 32 integers from i on, after their scales
}

func (b *integerBlock) at(i int) Mem { return Mem{Base: b.w, Disp: i} }

// halfAt is the f16 at byte i as the bits of a float32.
func (b *integerBlock) halfAt(i int) Register {
	t, r := GP64(), GP32()
	MOVWQZX(b.at(i), t)
	MOVL(Mem{Base: b.half, Index: t, Scale: 4}, r)
	return r
}

func (b *integerBlock) putScale(r Register, at Register) { MOVL(r, Mem{Base: at}) }

// putNegative stores what the values have added, as what is subtracted from them.
func (b *integerBlock) putNegative(r Register) {
	XORL(U32(0x80000000), r)
	MOVL(r, Mem{Base: b.low})
}

// broadcastHalf is the f16 at byte i in all lanes.
func (b *integerBlock) broadcastHalf(i int) VecVirtual {
	t, y := GP64(), YMM()
	MOVWQZX(b.at(i), t)
	VBROADCASTSS(Mem{Base: b.half, Index: t, Scale: 4}, y)
	return y
}

// shiftRight shifts words; the bits that cross bytes are masked off afterwards.
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

// halves are 32 values of 16 bytes: the low halves, then the high ones.
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

// fifths are the bits of the dword at i as the fifth bits of 32 values.
func (b *integerBlock) fifths(i int) VecVirtual {
	x := YMM()
	VPBROADCASTD(b.at(i), x)
	VPSHUFB(spreadBytes(), x, x)
	VPAND(spreadBits(), x, x)
	VPCMPEQB(spreadBits(), x, x)
	return masked(x, 16)
}

var spread [2]Mem

// spreadBytes puts byte i/8 in byte i; spreadBits has bit i%8 in byte i.
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

// scales16 stores 16 numbers, signed bytes, times d.
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
	// The low four bits of 16 scales, and two bits of them in each byte of the last dword.
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

// scalesAndMinimums unpacks eight numbers of 6 bits each from the 12 bytes at 4.
func (b *integerBlock) scalesAndMinimums() {
	p := &packedBlock{vec: vec{8, "AVX2"}, w: b.w, half: b.half}
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

// lookup is 32 values by their numbers.
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

// lookup4_XS has scales of four bits at 4, and two more of each in the word at 2.
func lookup4_XS(b *integerBlock) {
	low, high := GP32(), GP32()
	MOVL(b.at(4), low)
	MOVWLZX(b.at(2), high)
	d := b.broadcastHalf(0)
	s, u := YMM(), YMM()
	x := XMM()
	MOVD(low, x)
	VPBROADCASTD(x, s)
	y := XMM()
	MOVD(high, y)
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
	TEXT(name, NOSPLIT, "func(q *int8, scale, low *float32, w *byte, half *float32, blocks int)")
	Doc(name + " sets q to the integers of blocks, scale to those of their groups, and low, where the format has it, to what is subtracted; blocks > 0.")
	Pragma("noescape")
	b := &integerBlock{w: Load(Param("w"), GP64()), half: Load(Param("half"), GP64()), q: Load(Param("q"), GP64()),
		scale: Load(Param("scale"), GP64()), low: Load(Param("low"), GP64())}
	b.put = func(i int, x VecVirtual) { VMOVDQU(x, Mem{Base: b.q, Disp: i}) }
	n := Load(Param("blocks"), GP64())
	Label("blocks")
	f.body(b)
	ADDQ(U32(uint32(f.bytes)), b.w)
	ADDQ(U32(uint32(f.values)), b.q)
	ADDQ(U32(uint32(f.values/f.group*4)), b.scale)
	ADDQ(U32(uint32(f.values/f.group*4)), b.low)
	DECQ(n)
	JNE(LabelRef("blocks"))
	VZEROUPPER()
	RET()
}

// decodeIntegers writes the decoder of a format.
func (v vec) decodeIntegers(f integerFormat) {
	name := "decode" + f.name + v.name
	TEXT(name, NOSPLIT, "func(dst *float32, w *byte, half *float32, blocks int)")
	Doc(name + " sets dst to the values of blocks, each rounded once; blocks > 0.")
	Pragma("noescape")
	room := AllocLocal(160) // 16 scales, 16 of what is subtracted, 32 integers
	b := &integerBlock{w: Load(Param("w"), GP64()), half: Load(Param("half"), GP64()), scale: GP64(), low: GP64()}
	LEAQ(room, b.scale)
	LEAQ(room.Offset(64), b.low)
	dst, n := Load(Param("dst"), GP64()), Load(Param("blocks"), GP64())
	b.put = func(i int, x VecVirtual) {
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
	Label("blocks")
	f.body(b)
	ADDQ(U32(uint32(f.bytes)), b.w)
	ADDQ(U32(uint32(4*f.values)), dst)
	DECQ(n)
	JNE(LabelRef("blocks"))
	VZEROUPPER()
	RET()
}

// roundRow rounds activations.
func (v vec) roundRow() {
	name := "roundRow" + v.name
	TEXT(name, NOSPLIT, "func(q *int8, scale, sums, x *float32, groups int)")
	Doc(name + " rounds 32*groups activations as quant.RoundActivations does. sums are those of each 16 elements of q; groups > 0.")
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
	m, t := XMM(), XMM()
	VEXTRACTI128(Imm(1), most, m)
	VPMAXUD(most.AsX(), m, m)
	VPSHUFD(Imm(0x0e), m, t)
	VPMAXUD(t, m, m)
	VPSHUFD(Imm(1), m, t)
	VPMAXUD(t, m, m)
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

const integerDoc = "the sum over groups g of dx[g][row]*dw[g][column] times the sum of a·b in the group, for 16 rows and 16 columns: " +
	"a is [groups][16 rows][step/16], b [groups][step/64][16 columns][4], the others have 16 numbers for each group. resume adds to what C holds; groups > 0."

// integerTiles is a product of 16 rows and 16 columns in tiles: while vectors scale the sums of a group, the tiles of the next are multiplied.
func integerTiles(lows bool) {
	name := "integerTiles"
	if lows {
		name += "Low"
	}
	TEXT(name, NOSPLIT, "func(config, room *byte, "+integerArgs+")")
	Doc(name+" is C = "+integerDoc, "low is multiplied by xs and subtracted where the format has it. config has tiles of step/64 rows; room is 2048 bytes.")
	Pragma("noescape")
	MOVQ(arg("config"), RAX)
	tileConfig(RAX)
	a, b, dx, dw, room, n, step, done := RSI, RDX, R8, R9, R10, R11, R12, R15
	aStride, bStride := RCX, RBX
	MOVQ(arg("a"), a)
	MOVQ(arg("b"), b)
	MOVQ(arg("dx"), dx)
	MOVQ(arg("dw"), dw)
	MOVQ(arg("room"), room)
	LEAQ(Mem{Base: room, Disp: 1024}, done)
	MOVQ(arg("groups"), n)
	MOVQ(arg("step"), step)
	MOVQ(step, aStride)
	SHRQ(Imm(4), aStride)
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
		ADDQ(step, a)
		ADDQ(step, b)
	}
	multiply()
	Label("group")
	XCHGQ(room, done)
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
		VCVTDQ2PS(Mem{Base: done, Disp: 64 * m}, t)
		VMULPS_BCST(Mem{Base: dx, Disp: 4 * m}, Z30, by)
		VFMADD231PS(by, t, acc(m))
		if lows {
			VFNMADD231PS_BCST(Mem{Base: xs, Disp: 4 * m}, Z31, acc(m))
		}
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
	endIntegers(acc)
}

// startIntegers sets 16 sums to zero or what C holds; endIntegers stores them.
func startIntegers(acc func(m int) VecPhysical) {
	c, ldc := RAX, R14
	MOVQ(arg("c"), c)
	MOVQ(arg("ldc"), ldc)
	SHLQ(Imm(2), ldc)
	CMPQ(arg("resume"), Imm(0))
	JEQ(LabelRef("fresh"))
	for m := range 16 {
		VMOVUPS(Mem{Base: c}, acc(m))
		ADDQ(ldc, c)
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
		VMOVUPS(acc(m), Mem{Base: c})
		ADDQ(ldc, c)
	}
	VZEROUPPER()
	RET()
}

// dotBytes adds to the lanes of sum the products of four bytes of u, unsigned, and the four signed ones at m.
func dotBytes(m Mem, u, sum VecPhysical) {
	Instruction(&ir.Instruction{Opcode: "VPDPBUSD.BCST", Operands: []Op{m, u, sum}, ISA: []string{"AVX512VNNI"}})
}

// integerVectors is the same with products of vectors, for processors without tiles. Weights become unsigned by an offset of 128.
func integerVectors(lows bool) {
	name := "integerVectors"
	if lows {
		name += "Low"
	}
	TEXT(name, NOSPLIT, "func(sums *int32, rows int, "+integerArgs+")")
	Doc(name+" is C = "+integerDoc, "low is multiplied by xs and subtracted where the format has it. sums are -128 times those of the rows of a. With rows <= 8 it leaves out the others.")
	Pragma("noescape")
	a, b, dx, dw, sums, n, step := RSI, RDX, R8, R9, R10, R11, R12
	at, left, stride, first, fourth := RCX, RBX, R15, RAX, R14
	xs, low := R13, RDI
	reg := func(m int) VecPhysical { return vec{16, ""}.phys(m) }
	startIntegers(reg)
	MOVQ(arg("a"), a)
	MOVQ(arg("b"), b)
	MOVQ(arg("dx"), dx)
	MOVQ(arg("dw"), dw)
	MOVQ(arg("sums"), sums)
	MOVQ(arg("groups"), n)
	MOVQ(arg("step"), step)
	MOVQ(step, stride) // of rows of a, in bytes
	SHRQ(Imm(4), stride)
	if lows {
		MOVQ(arg("xs"), xs)
		MOVQ(arg("low"), low)
	}
	half := func(from int, label string) {
		MOVQ(b, at)
		MOVQ(stride, left)
		SHRQ(Imm(2), left)
		for m := range 8 {
			VPBROADCASTD(Mem{Base: sums, Disp: 4 * (from + m)}, reg(16+m))
		}
		MOVQ(a, first)
		if from > 0 {
			LEAQ(Mem{Base: a, Index: stride, Scale: 8}, first)
		}
		LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, fourth)
		ADDQ(first, fourth) // row 3
		VMOVUPS(bytesConst(0x80), Z28)
		Label(label)
		VPXORD(Mem{Base: at}, Z28, Z29)
		for m := range 8 {
			row := Mem{Base: first, Index: stride, Scale: uint8(m)}
			switch m {
			case 0:
				row = Mem{Base: first}
			case 3, 5, 7:
				row = Mem{Base: fourth, Index: stride, Scale: uint8(m - 3)}
				if m == 3 {
					row = Mem{Base: fourth}
				}
			case 6:
				continue
			}
			dotBytes(row, Z29, reg(16+m))
		}
		LEAQ(Mem{Base: fourth, Index: stride, Scale: 1}, fourth)
		dotBytes(Mem{Base: fourth, Index: stride, Scale: 2}, Z29, reg(16+6))
		SUBQ(stride, fourth)
		ADDQ(Imm(64), at)
		ADDQ(Imm(4), first)
		ADDQ(Imm(4), fourth)
		DECQ(left)
		JNE(LabelRef(label))
		for m := range 8 {
			t, by := reg(16+m), reg(24+m%4)
			VCVTDQ2PS(t, t)
			VMULPS_BCST(Mem{Base: dx, Disp: 4 * (from + m)}, Z30, by)
			VFMADD231PS(by, t, reg(from+m))
			if lows {
				VFNMADD231PS_BCST(Mem{Base: xs, Disp: 4 * (from + m)}, Z31, reg(from+m))
			}
		}
	}
	Label("group")
	VMOVUPS(Mem{Base: dw}, Z30)
	if lows {
		VMOVUPS(Mem{Base: low}, Z31)
	}
	half(0, "quads")
	CMPQ(arg("rows"), Imm(8))
	JLE(LabelRef("few"))
	half(8, "moreQuads")
	Label("few")
	ADDQ(step, a)
	ADDQ(step, b)
	ADDQ(Imm(64), sums)
	ADDQ(Imm(64), dx)
	ADDQ(Imm(64), dw)
	if lows {
		ADDQ(Imm(64), xs)
		ADDQ(Imm(64), low)
	}
	DECQ(n)
	JNE(LabelRef("group"))
	MOVQ(arg("ldc"), R14)
	SHLQ(Imm(2), R14)
	endIntegers(reg)
}
