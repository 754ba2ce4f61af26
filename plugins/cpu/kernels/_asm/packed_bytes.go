package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// genPackedBytes writes products of packed weights and a vector of bytes, for AVX2 and for AVX-512 with VNNI. Both use vectors of 32 bytes: a
// block of most formats has no more.
func genPackedBytes(v vec) {
	for _, f := range []byteFormat{
		{"Q8_0", 32, 34, 4, bytesOf8_0}, {"Q4_0", 32, 18, 4, bytesOf4_0}, {"Q4_K", 256, 144, 1, bytesOf4_K}, {"Q6_K", 256, 210, 1, bytesOf6_K},
	} {
		byteDot(f, v)
	}
}

type byteFormat struct {
	name                  string
	values, bytes, unroll int
	body                  func(p *byteBlock)
}

// byteBlock is a block of weights and the activations beside it.
type byteBlock struct {
	integerBlock
	vnni                bool
	off                 int // of the block, in bytes
	block               int // in the iteration
	values              int
	x, dx, xs, products Register
	room                Mem
	acc                 [2]VecVirtual
	low                 VecVirtual
	turn                int
}

func (p *byteBlock) at(i int) Mem { return Mem{Base: p.w, Disp: p.off + i} }

// sums are the sums of four products in each lane, of unsigned bytes u and the activations from i on, and of what u is too large by.
func (p *byteBlock) sums(u VecVirtual, i int) VecVirtual {
	i += p.block * p.values
	x, excess := Mem{Base: p.x, Disp: i}, Mem{Base: p.products, Disp: i}
	t := YMM()
	if p.vnni {
		VMOVDQU(excess, t)
		Instruction(&ir.Instruction{Opcode: "VPDPBUSD", Operands: []Op{x, u, t}, Inputs: []Op{x, u, t}, Outputs: []Op{t}, ISA: []string{"AVX512VNNI", "AVX512VL"}})
	} else {
		VPMADDUBSW(x, u, t)
		VPMADDWD(wordOnes(), t, t)
		VPADDD(excess, t, t)
	}
	VCVTDQ2PS(t, t)
	return t
}

func wordOnes() Mem { return bitsConst(0x00010001) }

// add is acc += sums * scale.
func (p *byteBlock) add(sums VecVirtual, scale Op) {
	VFMADD231PS(scale, sums, p.acc[p.turn%2])
	p.turn++
}

// blockScale is the f16 at byte 0 times the scale of the activations.
func (p *byteBlock) blockScale() VecVirtual {
	s, t, y := YMM(), GP64(), YMM()
	MOVWQZX(p.at(0), t)
	VBROADCASTSS(Mem{Base: p.half, Index: t, Scale: 4}, s)
	VBROADCASTSS(Mem{Base: p.dx, Disp: 4 * p.block}, y)
	VMULPS(y, s, s)
	return s
}

// bytesOf8_0: without VNNI pairs of products of unsigned bytes would exceed words, so the signs go to the activations.
func bytesOf8_0(p *byteBlock) {
	w := YMM()
	if p.vnni {
		VMOVDQU(p.at(2), w)
		VPXOR(bytesConst(0x80), w, w)
		p.add(p.sums(w, 0), p.blockScale())
		return
	}
	x, t := YMM(), YMM()
	VMOVDQU(p.at(2), w)
	VMOVDQU(Mem{Base: p.x, Disp: p.block * p.values}, x)
	VPSIGNB(w, x, x)
	VPABSB(w, t)
	VPMADDUBSW(x, t, t)
	VPMADDWD(wordOnes(), t, t)
	VCVTDQ2PS(t, t)
	p.add(t, p.blockScale())
}

func bytesOf4_0(p *byteBlock) {
	x, high, y := XMM(), XMM(), YMM()
	VMOVDQU(p.at(2), x)
	VPSRLW(Imm(4), x, high)
	VINSERTI128(Imm(1), high, x.AsY(), y)
	p.add(p.sums(masked(y, 15), 0), p.blockScale())
}

// broadcast is float i of the room.
func (p *byteBlock) broadcast(i int) VecVirtual {
	s := YMM()
	VBROADCASTSS(p.room.Offset(4*i), s)
	return s
}

func bytesOf4_K(p *byteBlock) {
	s, m := (&packedBlock{vec: vec{8, "AVX2"}, w: p.w, half: p.half}).sixes()
	VMULPS(p.broadcastHalf(0), s, s)
	VMULPS(Mem{Base: p.dx}, s, s)
	VMOVUPS(s, p.room)
	VMULPS(p.broadcastHalf(2), m, m)
	VFMADD231PS(Mem{Base: p.xs}, m, p.low)
	for c := range 4 {
		x := YMM()
		VMOVDQU(p.at(16+32*c), x)
		p.add(p.sums(masked(x, 15), 64*c), p.broadcast(2*c))
		p.add(p.sums(masked(shiftRight(x, 4), 15), 64*c+32), p.broadcast(2*c+1))
	}
}

var pairs6_K [6]Mem

// pairOrder is lanes 2i and 2i+1, four times each; doubled is each lane of a half twice.
func pairOrder(i int) Mem {
	return laneOrder(i, func(l int) int { return 2*i + l/4 })
}

func doubled(half int) Mem {
	return laneOrder(4+half, func(l int) int { return 4*half + l/2 })
}

func laneOrder(n int, lane func(l int) int) Mem {
	if pairs6_K[n].Base == nil {
		pairs6_K[n] = GLOBL("laneOrder"+string(rune('0'+n)), 8|16)
		for l := range 8 {
			DATA(4*l, U32(uint32(lane(l))))
		}
	}
	return pairs6_K[n]
}

func bytesOf6_K(p *byteBlock) {
	raw, d, dx := XMM(), p.broadcastHalf(208), YMM()
	VMOVDQU(p.at(192), raw)
	VMOVUPS(Mem{Base: p.dx}, dx)
	var scale [2]VecVirtual
	for h := range scale {
		s, t, order := YMM(), YMM(), YMM()
		if h == 1 {
			VPSRLDQ(Imm(8), raw, raw)
		}
		VPMOVSXBD(raw, s)
		VCVTDQ2PS(s, s)
		VMULPS(d, s, s)
		VMOVDQU(doubled(h), order)
		VPERMPS(dx, order, t)
		VMULPS(t, s, s)
		scale[h] = s
	}
	for h := range 2 {
		high := YMM()
		VMOVDQU(p.at(128+32*h), high)
		for j := range 4 {
			x := YMM()
			VMOVDQU(p.at(64*h+32*(j%2)), x)
			q, upper := masked(shiftRight(x, j/2*4), 15), masked(shiftRight(high, 2*j-4), 0x30)
			VPOR(upper, q, q)
			s := YMM()
			VMOVDQU(pairOrder(j), s)
			VPERMPS(scale[h], s, s)
			p.add(p.sums(q, 128*h+32*j), s)
		}
	}
}

func byteDot(f byteFormat, v vec) {
	set := map[bool]string{false: "AVX2", true: "VNNI"}[v.wide()]
	name := "dotBytes" + f.name + set
	TEXT(name, NOSPLIT, "func(dst *float32, w *byte, stride, rows int, x *int8, dx, xs *float32, excess *int32, half *float32, blocks int)")
	Doc(name+" is dst[r] = the sum of x times the values of row r, r < rows, in blocks, stride bytes apart. x are bytes that dx scales, 32 each,",
		"xs are the sums of each 32, scaled, and excess those of each 4 times what the format's unsigned integers are too large by, negative; rows and blocks > 0.")
	Pragma("noescape")
	p := &byteBlock{vnni: v.wide(), values: f.values, room: AllocLocal(32)}
	dst, w := Load(Param("dst"), GP64()), Load(Param("w"), GP64())
	p.half = Load(Param("half"), GP64())
	n := GP64()
	p.integerBlock.w, p.x, p.dx, p.xs, p.products = GP64(), GP64(), GP64(), GP64(), GP64()
	pw := p.integerBlock.w
	for i := range p.acc {
		p.acc[i] = YMM()
	}
	p.low = YMM()
	lows := f.name == "Q4_K"
	Label("row")
	MOVQ(w, pw)
	MOVQ(arg("x"), p.x)
	MOVQ(arg("dx"), p.dx)
	MOVQ(arg("excess"), p.products)
	MOVQ(arg("blocks"), n)
	for _, a := range p.acc {
		VXORPS(a, a, a)
	}
	if lows {
		MOVQ(arg("xs"), p.xs)
		VXORPS(p.low, p.low, p.low)
	}
	step := func(blocks int) {
		for p.block = range blocks {
			p.off = p.block * f.bytes
			f.body(p)
		}
		fetchAhead(pw, blocks*f.bytes)
		ADDQ(U32(uint32(blocks*f.bytes)), pw)
		ADDQ(U32(uint32(blocks*f.values)), p.x)
		ADDQ(U32(uint32(blocks*f.values)), p.products)
		ADDQ(U32(uint32(blocks*f.values/8)), p.dx)
		if lows {
			ADDQ(U32(uint32(blocks*f.values/8)), p.xs)
		}
	}
	unrolled(n, f.unroll, step)
	VADDPS(p.acc[1], p.acc[0], p.acc[0])
	if lows {
		VSUBPS(p.low, p.acc[0], p.acc[0])
	}
	VMOVSS(vec{8, ""}.lane(p.acc[0]).AsX(), Mem{Base: dst})
	ADDQ(Imm(4), dst)
	ADDQ(arg("stride"), w)
	DECQ(arg("rows"))
	JNE(LabelRef("row"))
	VZEROUPPER()
	RET()
}
