package main

import (
	"fmt"
	"math"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// genPacked writes routines that multiply by packed weights, and routines that decode them. Both widen blocks in
// registers, from bytes to dwords and then to float32.
func genPacked(v vec) {
	for _, f := range []packedFormat{
		{"Q8_0", 32, 34, 2, q8_0, (*wideDot).load, (*wideDot).q8_0},
		{"Q4_0", 32, 18, 2, q4_0, (*wideDot).load4_0, (*wideDot).q4_0},
		{"Q4_K", 256, 144, 1, q4_K, nil, (*wideDot).q4_K}, {"Q6_K", 256, 210, 1, q6_K, nil, (*wideDot).q6_K},
	} {
		if v.wide() {
			v.packedDot(f)
		} else {
			v.dotAVX2(f)
		}
		v.packedDecode(f)
	}
	if v.wide() {
		cpuVendor()
	}
	v.dotHalves("dotF16", func(m Mem, r Register) { VCVTPH2PS(m, r) })
	v.dotHalves("dotBF16", func(m Mem, r Register) {
		VPMOVZXWD(m, r)
		VPSLLD(Imm(16), r, r)
	})
}

// packedFormat writes the code for one block: body calls p.group for each group of values that share a scale.
type packedFormat struct {
	name          string
	values, bytes int
	unroll        int                  // blocks in an iteration of the loop
	body          func(p *packedBlock) // for decoders
	load          func(p *wideDot)     // loads the activations that all rows share, for products with AVX-512
	wide          func(p *wideDot)     // for products with AVX-512; avx2FloatRows has those for AVX2
}

// packedBlock says where a block lies and what happens with its values.
type packedBlock struct {
	vec
	w    Register // pointer to the blocks
	off  int      // offset of the block from w, in bytes
	room Mem      // 128 bytes of the stack: 16 scales, 16 minimums
	// group handles the values of a group, the first of which has index i: floats that are exact before scaling. scale
	// loads their scale. If j > 0, minimum j-1 in room is to be subtracted from the scaled values.
	group func(i int, values []VecVirtual, scale func(dst Register), j int)
}

// at returns the address of byte i of the block.
func (p *packedBlock) at(i int) Mem { return Mem{Base: p.w, Disp: p.off + i} }

// halfAt broadcasts the f16 at byte i as float32.
func (p *packedBlock) halfAt(v vec, i int, dst Register) {
	v.broadcastHalf(p.at(i), dst)
}

// broadcastHalf sets all lanes of dst to the value of the f16 at m.
func (v vec) broadcastHalf(m Mem, dst Register) {
	h := v.halfReg()
	VPBROADCASTW(m, h)
	VCVTPH2PS(h, dst)
}

// dwords widens a vector of bytes from i on.
func (p *packedBlock) dwords(i int, signed bool) VecVirtual {
	r := p.reg()
	if signed {
		VPMOVSXBD(p.at(i), r)
	} else {
		VPMOVZXBD(p.at(i), r)
	}
	return r
}

func (p *packedBlock) float(x VecVirtual) VecVirtual {
	VCVTDQ2PS(x, x)
	return x
}

func (p *packedBlock) shifted(x VecVirtual, right int) VecVirtual {
	r := p.reg()
	if right < 0 {
		VPSLLD(Imm(uint64(-right)), x, r)
	} else {
		VPSRLD(Imm(uint64(right)), x, r)
	}
	return r
}

// nibbles returns the low and the high nibbles of a vector of bytes, minus offset, as floats. AVX-512 looks them up in
// a table with a permutation, which reads only the lowest four bits of an index.
func (p *packedBlock) nibbles(x VecVirtual, offset int) (low, high VecVirtual) {
	if p.wide() {
		low, high = p.reg(), p.reg()
		VPERMPS(Z31, x, low) // the table, see constants
		VPSRLD(Imm(4), x, high)
		VPERMPS(Z31, high, high)
		return low, high
	}
	high, low = p.shifted(x, 4), p.reg()
	p.and(bitsConst(15), x, low)
	if offset != 0 {
		VPSUBD(bitsConst(uint32(offset)), low, low)
		VPSUBD(bitsConst(uint32(offset)), high, high)
	}
	return p.float(low), p.float(high)
}

// floatsFrom returns a table of the floats from -offset to 15-offset, times factor.
func floatsFrom(name string, offset, factor int) Mem {
	return lanesConst(name, 16, func(l int) uint32 { return math.Float32bits(float32(factor * (l - offset))) })
}

func q8_0(p *packedBlock) {
	var values []VecVirtual
	for i := 0; i < 32; i += p.lanes {
		values = append(values, p.float(p.dwords(2+i, true)))
	}
	p.group(0, values, func(dst Register) { p.halfAt(p.vec, 0, dst) }, 0)
}

func q4_0(p *packedBlock) {
	var low, high []VecVirtual
	for i := 0; i < 16; i += p.lanes {
		l, h := p.nibbles(p.dwords(2+i, false), 8)
		low, high = append(low, l), append(high, h)
	}
	p.group(0, append(low, high...), func(dst Register) { p.halfAt(p.vec, 0, dst) }, 0)
}

// sixes returns the scales and the minimums of a block of q4_K or q5_K: eight numbers of 6 bits each, in dwords 1 to 3.
// Numbers 4 to 7 have their low four bits in the last dword and their high two bits in one of the others.
func (p *packedBlock) sixes() (s, m VecVirtual) {
	raw, bits, upper := XMM(), XMM(), XMM()
	VMOVDQU(p.at(0), raw)
	VPSHUFD(Imm(0xed), raw, bits) // dwords 1 3 2 3
	VPSRLVD(dwords("sixesShifts", 0, 0, 0, 4), bits, bits)
	VPAND(dwords("sixesLow", 0x3f3f3f3f, 0x0f0f0f0f), bits, bits)
	VPSHUFD(Imm(0x84), raw, upper) // dwords 0 1 0 2
	VPSRLD(Imm(2), upper, upper)
	VPAND(dwords("sixesHigh", 0, 0x30303030), upper, upper)
	VPOR(upper, bits, bits)
	s, m = YMM(), YMM()
	VPMOVZXBD(bits, s)
	VPSRLDQ(Imm(8), bits, bits)
	VPMOVZXBD(bits, m)
	VCVTDQ2PS(s, s)
	VCVTDQ2PS(m, m)
	return s, m
}

// scalesAndMinimums writes the scales of the groups of a q4_K block to room and returns their minimums.
func (p *packedBlock) scalesAndMinimums() VecVirtual {
	s, m := p.sixes()
	d := YMM()
	p.halfAt(vec{8, ""}, 0, d)
	VMULPS(d, s, s)
	VMOVUPS(s, p.room)
	p.halfAt(vec{8, ""}, 2, d)
	VMULPS(d, m, m)
	return m
}

func q4_K(p *packedBlock) {
	VMOVUPS(p.scalesAndMinimums(), p.room.Offset(64))
	for c := range 4 {
		var low, high []VecVirtual
		for i := 0; i < 32; i += p.lanes {
			l, h := p.nibbles(p.dwords(16+32*c+i, false), 0)
			low, high = append(low, l), append(high, h)
		}
		p.group(64*c, low, p.scale(2*c), 2*c+1)
		p.group(64*c+32, high, p.scale(2*c+1), 2*c+2)
	}
}

// scale returns a function that loads scale i of room.
func (p *packedBlock) scale(i int) func(Register) {
	return func(dst Register) { VBROADCASTSS(p.room.Offset(4*i), dst) }
}

// q6_K joins four bits and two bits of each value. With AVX-512 the six bits become the lowest bits of the float 2^23,
// which saves a conversion.
func q6_K(p *packedBlock) {
	d := p.reg()
	p.halfAt(p.vec, 208, d)
	for i := 0; i < 16; i += p.lanes {
		s := p.float(p.dwords(192+i, true))
		VMULPS(d, s, s)
		VMOVUPS(s, p.room.Offset(4*i))
	}
	for h := range 2 {
		for part := range 2 {
			for j := range 4 {
				var q []VecVirtual
				for i := 0; i < 16; i += p.lanes {
					at := 16*part + i
					u := p.dwords(64*h+32*(j%2)+at, false)
					if j > 1 {
						VPSRLD(Imm(4), u, u)
					}
					q = append(q, p.six(u, p.shifted(p.dwords(128+32*h+at, false), 2*j-4)))
				}
				p.group(128*h+32*j+16*part, q, p.scale(8*h+2*j+part), 0)
			}
		}
	}
}

// six returns the low four bits of u joined with bits 4 and 5 of t, minus 32, as floats. It may overwrite t.
func (p *packedBlock) six(u, t VecVirtual) VecVirtual {
	if p.wide() {
		VPTERNLOGD(Imm(0xd8), Z30, u, t)   // bits of Z30 (0x0f) from u, others from t
		VPTERNLOGD(Imm(0xea), Z28, Z29, t) // t & Z29 (0x3f) | Z28 (2^23)
		VSUBPS(Z27, t, t)                  // 2^23 + 32
		return t
	}
	l := p.reg()
	p.and(bitsConst(15), u, l)
	p.and(bitsConst(0x30), t, t)
	p.or(l, t, t)
	VPSUBD(bitsConst(32), t, t)
	return p.float(t)
}

// constants loads the constants of nibbles and six into registers.
func (p *packedBlock) constants(f packedFormat) {
	if !p.wide() {
		return
	}
	switch f.name {
	case "Q4_0":
		VMOVUPS(floatsFrom("signedNibbles", 8, 1), Z31)
	case "Q4_K":
		VMOVUPS(floatsFrom("nibbles", 0, 1), Z31)
	case "Q6_K":
		VMOVUPS(bitsConst(0x0f), Z30)
		VMOVUPS(bitsConst(0x3f), Z29)
		VMOVUPS(bitsConst(0x4b000000), Z28)
		VMOVUPS(f32(1<<23+32), Z27)
	}
}

// dotBlockDoc describes a macro, whose name precedes it.
const dotBlockDoc = " adds the product of a block of weights and its activations to the sums of a row."

const packedDotDoc = "blocks is the number of blocks in a row. sums[j] is the sum of x[32*j : 32*j+32]. lead, gap and stride may be 0. rows, blocks > 0."

// packedDot writes the product of a matrix of packed weights and a vector, for AVX-512.
func (v vec) packedDot(f packedFormat) {
	name := "dot" + f.name + v.name
	args := "x, sums *float32, blocks int)"
	if f.name == "Q4_0" { // half is a table of the values of all f16
		args = "x, sums, half *float32, blocks int)"
	}
	TEXT(name, NOSPLIT, "func("+fmt.Sprintf(dotArgs, "*byte")+args)
	Doc(name+dotDoc, packedDotDoc)
	Pragma("noescape")
	px, n := GP64(), GP64()
	ahead, w := prefetchAhead(), gp64s()
	p := &packedBlock{vec: v, room: AllocLocal(128)}
	wide := &wideDot{packedBlock: p, px: px, values: f.values}
	if f.name == "Q4_0" {
		wide.half = Load(Param("half"), GP64())
	}
	wide.wideConstants(f.name)
	hasMinimums := f.name == "Q4_K"
	var ps Register
	var acc, low [dotStreams]VecVirtual
	for i := range acc {
		acc[i] = v.reg()
		if hasMinimums {
			low[i] = YMM()
		}
	}
	if hasMinimums {
		ps = GP64()
	}
	Label("row")
	w.start(n)
	MOVQ(arg("x"), px)
	MOVQ(arg("blocks"), n)
	for i := range acc {
		v.clear(acc[i])
	}
	if hasMinimums {
		MOVQ(arg("sums"), ps)
		for _, l := range low {
			VXORPS(l, l, l)
		}
	}
	unrolled(n, f.unroll, func(blocks int) {
		for block := range blocks {
			p.off = block * f.bytes
			for row := range w {
				p.w = w[row]
				wide.row, wide.block, wide.acc, wide.low, wide.ps = row, block, acc[row], low[row], ps
				if f.load != nil && row == 0 {
					f.load(wide)
				}
				params := []param{{"w", p.w}, {"acc", acc[row]}, {"block", block}}
				if hasMinimums {
					params = append(params, param{"low", low[row]})
				}
				macro := strings.ToUpper("dot_" + f.name + "_" + v.name)
				macroUse(macro, macro+dotBlockDoc, params, func() { f.wide(wide) })
			}
		}
		w.prefetch(blocks*f.bytes, ahead)
		w.advance(blocks * f.bytes)
		ADDQ(U32(uint32(4*blocks*f.values)), px)
		if hasMinimums {
			ADDQ(Imm(32), ps)
		}
	})
	var sums [dotStreams]Register
	for i := range sums {
		sum := v.lane(acc[i])
		if f.name == "Q4_0" || f.name == "Q4_K" {
			VMULSS(f32(1.0/16), sum.AsX(), sum.AsX())
		}
		if hasMinimums {
			VSUBSS(vec{8, ""}.lane(low[i]), sum, sum)
		}
		sums[i] = sum.AsX()
	}
	w.end(sums, n, px)
}

// packedDecode writes the decoder of a format.
func (v vec) packedDecode(f packedFormat) {
	name := "decode" + f.name + v.name
	TEXT(name, NOSPLIT, "func(dst *float32, w *byte, blocks int)")
	Doc(name + " sets dst to the values of blocks, each rounded once. blocks > 0.")
	Pragma("noescape")
	dst, w, n := Load(Param("dst"), GP64()), Load(Param("w"), GP64()), Load(Param("blocks"), GP64())
	p := &packedBlock{vec: v, w: w, room: AllocLocal(128)}
	p.constants(f)
	p.group = func(i int, values []VecVirtual, scale func(Register), j int) {
		s, m := v.reg(), v.reg()
		scale(s)
		if j > 0 {
			VBROADCASTSS(p.room.Offset(64+4*(j-1)), m)
		}
		for k, x := range values {
			if j > 0 {
				VFMSUB213PS(m, s, x)
			} else {
				VMULPS(s, x, x)
			}
			VMOVUPS(x, Mem{Base: dst, Disp: 4 * (i + k*v.lanes)})
		}
	}
	Label("blocks")
	f.body(p)
	ADDQ(U32(uint32(f.bytes)), w)
	ADDQ(U32(uint32(4*f.values)), dst)
	DECQ(n)
	JNE(LabelRef("blocks"))
	VZEROUPPER()
	RET()
}
