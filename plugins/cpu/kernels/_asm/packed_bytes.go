package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// genPackedBytes writes products of packed weights and a vector of bytes, for AVX2 and for AVX-512 with VNNI. Both use vectors of 32 bytes,
// because a block of most formats has no more, but for those of blockPair.
func genPackedBytes(v vec) {
	own := map[string]func(*byteBlock){"Q4_K": (*byteBlock).sixteenfold4_K, "Q6_K": (*byteBlock).joined6_K}
	if !v.wide() {
		own = acrossRows
	}
	for _, f := range integerFormats {
		if v.wide() && (f.name == "Q4_0" || f.name == "Q8_0") {
			blockPair{f, f.name == "Q4_0"}.dot()
			continue
		}
		body := own[f.name]
		if body == nil {
			body = bytesOf(f)
		}
		byteDot(f, v, body)
	}
}

// byteBlock writes the product of a block of weights and its activations, for one of the rows of weights that are read at once.
type byteBlock struct {
	integerBlock
	vnni, exact         bool       // exact: nothing is added to the integers of the weights, so there is no excess (see byteDot)
	block               int        // index in the iteration of the loop
	values              int        // in a block
	x, dx, xs, products Register   // arguments of the routine, advanced by iterations; products is excess
	room                Mem        // 128 bytes of the stack
	acc, lows           VecVirtual // of the row: sums of scaled products; sums of what is subtracted from them
	row                 int
	rows                streams                // pointers to the rows: w is rows[row]
	sum                 [dotStreams]VecVirtual // the acc of each row
	scales              [dotStreams]VecVirtual // for q6_K: 16 scales of each row
	rowScale            VecVirtual             // for q4_K and q6_K: the scales of the block's activations. All rows share them
	across              rowsOfBlocks
}

// sums returns 8 floats: sums of four products of the unsigned bytes u and the activations from i on, plus their excess.
func (p *byteBlock) sums(u VecVirtual, i int) VecVirtual {
	i += p.block * p.values
	x, excess := Mem{Base: p.x, Disp: i}, Mem{Base: p.products, Disp: i}
	t := YMM()
	if p.vnni {
		if p.exact {
			VPXOR(t, t, t)
		} else {
			VMOVDQU(excess, t)
		}
		vpdpbusd(x, u, t)
	} else {
		VPMADDUBSW(x, u, t)
		VPMADDWD(wordOnes(), t, t)
		if !p.exact {
			VPADDD(excess, t, t)
		}
	}
	VCVTDQ2PS(t, t)
	return t
}

func wordOnes() Mem { return bitsConst(0x00010001) }

// add writes acc += sums * scale.
func (p *byteBlock) add(sums VecVirtual, scale Op) {
	VFMADD231PS(scale, sums, p.acc)
}

// signedSums is sums for signed bytes. With VNNI it adds 128 to them. Without VNNI the sum of two products of such bytes would overflow 16
// bits, so it moves the signs to the activations instead.
func (p *byteBlock) signedSums(w VecVirtual, i int) VecVirtual {
	t := YMM()
	if p.vnni {
		VPXOR(bytesConst(0x80), w, t)
		return p.sums(t, i)
	}
	x := YMM()
	VMOVDQU(Mem{Base: p.x, Disp: p.block*p.values + i}, x)
	VPSIGNB(w, x, x)
	VPABSB(w, t)
	VPMADDUBSW(x, t, t)
	VPMADDWD(wordOnes(), t, t)
	VCVTDQ2PS(t, t)
	return t
}

// bytesConstants loads the constants of the bodies for VNNI into registers.
func bytesConstants(f integerFormat) {
	switch f.name {
	case "Q4_K":
		VPBROADCASTD(bytesConst(0x0f), Y31)
		VPBROADCASTD(bytesConst(0xf0), Y30)
		sixesConstants()
		VMOVUPS(dwords("sixteenthOdd", math.Float32bits(1), math.Float32bits(1.0/16)), Y29)
	case "Q6_K":
		VPBROADCASTD(bytesConst(0x0f), Y31)
		VPBROADCASTD(bytesConst(0x3f), Y30)
		for i, r := range []Register{Y29, Y28, Y27, Y26} {
			VMOVDQU32(pairOrder(i), r)
		}
	}
}

// nibbleTable returns a constant of eight dwords: low in the lower half of the vector, for low nibbles, and high in the upper half.
func nibbleTable(name string, low, high uint32) Mem {
	return lanesConst(name, 8, func(l int) uint32 { return []uint32{low, high}[l/4] })
}

func vpdpbusd(x Op, u, t VecVirtual) {
	Instruction(&ir.Instruction{Opcode: "VPDPBUSD", Operands: []Op{x, u, t}, Inputs: []Op{x, u, t}, Outputs: []Op{t}, ISA: []string{"AVX512VNNI", "AVX512VL"}})
}

// sixteenfold4_K is the body of Q4_K, without shifts of nibbles. High nibbles stay in place, as 16 times their value, and the scale of their
// activations is divided by 16. It unpacks the scales row by row. At the last row, it multiplies all rows, which share loaded activations.
func (p *byteBlock) sixteenfold4_K() {
	if p.row == 0 {
		p.rowScale = YMM()
		VMULPS(Mem{Base: p.dx}, Y29, p.rowScale)
	}
	s, m := unpackSixes(p.at)
	VMULPS(p.rowScale, s, s)
	VMOVUPS(s, p.room.Offset(32*p.row))
	VFMADD231PS(Mem{Base: p.xs}, m, p.lows)
	if p.row < dotStreams-1 {
		return
	}
	for c := range 4 {
		var in [2]VecVirtual
		for h := range in {
			in[h] = YMM()
			VMOVDQU(Mem{Base: p.x, Disp: 64*c + 32*h}, in[h])
		}
		for row, w := range p.rows {
			x := YMM()
			VMOVDQU(Mem{Base: w, Disp: p.off + 16 + 32*c}, x)
			for h, mask := range []Register{Y31, Y30} {
				u, t := YMM(), YMM()
				VPANDD(mask, x, u)
				VPXOR(t, t, t)
				vpdpbusd(in[h], u, t)
				VCVTDQ2PS(t, t)
				VFMADD231PS_BCST(p.room.Offset(32*row+4*(2*c+h)), t, p.sum[row])
			}
		}
	}
}

// dwords returns a constant of eight dwords, in which the numbers repeat.
func dwords(name string, numbers ...uint32) Mem {
	return lanesConst(name, 8, func(l int) uint32 { return numbers[l%len(numbers)] })
}

// pairOrder returns the indices of a permutation that repeats lanes 2i and 2i+1 four times each. That of doubled repeats each lane of a half
// twice.
func pairOrder(i int) Mem {
	return laneOrder(i, func(l int) int { return 2*i + l/4 })
}

func doubled(half int) Mem {
	return laneOrder(4+half, func(l int) int { return 4*half + l/2 })
}

func laneOrder(n int, lane func(l int) int) Mem {
	return lanesConst(fmt.Sprint("laneOrder", n), 8, func(l int) uint32 { return uint32(lane(l)) })
}

// joined6_K is the body of Q6_K. It computes the scales row by row. At the last row, it multiplies all rows, which share loaded activations.
func (p *byteBlock) joined6_K() {
	if p.row == 0 {
		p.rowScale = ZMM()
		VPMOVZXDQ(Mem{Base: p.dx}, p.rowScale) // each scale twice: the activations have one for 32 values
		VMOVSLDUP(p.rowScale, p.rowScale)
	}
	s, d := ZMM(), ZMM()
	VPBROADCASTW(p.at(208), d.AsY())
	VCVTPH2PS(d.AsY(), d)
	VPMOVSXBD(p.at(192), s)
	VCVTDQ2PS(s, s)
	VMULPS(d, s, s)
	VMULPS(p.rowScale, s, s)
	p.scales[p.row] = s
	if p.row < dotStreams-1 {
		return
	}
	var upperScales [dotStreams]VecVirtual
	for row := range upperScales {
		upperScales[row] = YMM()
		VEXTRACTF32X8(Imm(1), p.scales[row], upperScales[row])
	}
	order := []Register{Y29, Y28, Y27, Y26}
	for h := range 2 {
		for part := range 2 { // values j = part have low nibbles, those of j = part+2 the high nibbles of the same bytes
			var in, excess [2]VecVirtual
			for k := range in {
				in[k], excess[k] = YMM(), YMM()
				at := 128*h + 32*(part+2*k)
				VMOVUPS(Mem{Base: p.x, Disp: at}, in[k])
				VMOVUPS(Mem{Base: p.products, Disp: at}, excess[k])
			}
			for row, w := range p.rows {
				high, nibbles := YMM(), YMM()
				VMOVUPS(Mem{Base: w, Disp: p.off + 128 + 32*h}, high)
				VMOVUPS(Mem{Base: w, Disp: p.off + 64*h + 32*part}, nibbles)
				for k := range in {
					j := part + 2*k
					q, t, s := YMM(), YMM(), YMM()
					if shift := 4 - 2*j; shift == 0 {
						VMOVAPS(high, q)
					} else {
						q = shiftRight(high, -shift)
					}
					if k == 1 {
						VPSRLW(Imm(4), nibbles, nibbles)
					}
					VPTERNLOGD(Imm(0xd8), Y31, nibbles, q) // bits of Y31 from nibbles, others from q
					VPANDD(Y30, q, q)
					VMOVAPS(excess[k], t)
					vpdpbusd(in[k], q, t)
					VCVTDQ2PS(t, t)
					scales := p.scales[row].AsY()
					if h == 1 {
						scales = upperScales[row]
					}
					VPERMPS(scales, order[j], s)
					VFMADD231PS(s, t, p.sum[row])
				}
			}
		}
	}
}

// bytesOf returns a body for formats that have none of their own. It multiplies the integers that integerFormat.body unpacks. body stores the
// scales of groups, and their lows, in room.
func bytesOf(f integerFormat) func(p *byteBlock) {
	groups := f.values / f.group
	return func(p *byteBlock) {
		p.put = func(i int, q VecVirtual) {
			sums := p.sums
			if !f.lows {
				sums = p.signedSums
			}
			s, dx := YMM(), YMM()
			if f.group == 32 {
				VBROADCASTSS(p.room.Offset(i/32*4), s)
			} else {
				VBROADCASTSD(p.room.Offset(i/16*4), s)
				VPERMILPS(halfOrder(), s, s)
			}
			VBROADCASTSS(Mem{Base: p.dx, Disp: 4 * (p.block*p.values + i) / 32}, dx)
			VMULPS(dx, s, s)
			p.add(sums(q, i), s)
		}
		f.body(&p.integerBlock)
		low := YMM()
		switch {
		case !f.lows:
		case groups == 1:
			VMOVSS(p.room.Offset(64), low.AsX())
			VFMADD231SS(Mem{Base: p.xs, Disp: 4 * p.block}, low.AsX(), p.lows.AsX())
		default:
			for g := 0; g < groups; g += 8 {
				VMOVUPS(p.room.Offset(64+4*g), low)
				VFMADD231PS(Mem{Base: p.xs, Disp: 4 * g}, low, p.lows)
			}
		}
	}
}

// halfOrder returns the indices of a permutation that fills the lower half of a vector with its lane 0 and the upper half with its lane 1.
func halfOrder() Mem { return laneOrder(6, func(l int) int { return l / 4 }) }

// byteArgs are the arguments after dotArgs. byteDoc describes them.
const byteArgs = "x *int8, dx, xs *float32, excess *int32, blocks int)"

var byteDoc = []string{
	"blocks is the number of blocks in a row. x has bytes, dx a scale for 32 of them, and xs the scaled sum of each group of the format.",
	"excess is that of roundedRow. lead, gap and stride may be 0. rows and blocks > 0.",
}

func byteDot(f integerFormat, v vec, body func(*byteBlock)) {
	set := map[bool]string{false: "AVX2", true: "VNNI"}[v.wide()]
	name := "dotBytes" + f.name + set
	TEXT(name, NOSPLIT, "func("+fmt.Sprintf(dotArgs, "*byte")+byteArgs)
	Doc(append([]string{name + dotDoc}, byteDoc...)...)
	Pragma("noescape")
	across := !v.wide() && acrossRows[f.name] != nil
	size := 128
	if across && f.group == 16 {
		size = 256
	}
	p := &byteBlock{vnni: v.wide(), exact: f.lows, values: f.values, room: AllocLocal(size)}
	n, ahead, w := AllocLocal(8), prefetchAhead(), gp64s() // the number of blocks is in memory, because some formats need all registers
	p.x, p.dx, p.products = GP64(), GP64(), GP64()
	if f.lows {
		p.xs = GP64()
	}
	p.scale, p.low = GP64(), GP64()
	LEAQ(p.room, p.scale)
	LEAQ(p.room.Offset(64), p.low)
	var acc, lows [dotStreams]VecVirtual
	for i := range acc {
		acc[i] = YMM()
		if f.lows && !across {
			lows[i] = YMM()
		}
	}
	unroll := 1
	if f.values == 32 {
		unroll = 2
	}
	p.rows, p.sum = w, acc
	if p.vnni {
		bytesConstants(f)
	}
	if across {
		p.across = newRowsOfBlocks(f)
	}
	Label("row")
	w.start(p.x)
	MOVQ(arg("blocks"), p.x)
	MOVQ(p.x, n)
	MOVQ(arg("x"), p.x)
	MOVQ(arg("dx"), p.dx)
	if !f.lows {
		MOVQ(arg("excess"), p.products)
	}
	for _, a := range acc {
		VXORPS(a, a, a)
	}
	if f.lows {
		MOVQ(arg("xs"), p.xs)
	}
	if f.lows && !across {
		for _, l := range lows {
			VXORPS(l, l, l)
		}
	}
	unrolled(n, unroll, func(blocks int) {
		for p.block = range blocks {
			p.off = p.block * f.bytes
			if across {
				body(p)
				continue
			}
			for i := range w {
				p.row, p.w, p.acc, p.lows = i, w[i], acc[i], lows[i]
				body(p)
			}
		}
		w.prefetch(blocks*f.bytes, ahead)
		w.advance(blocks * f.bytes)
		ADDQ(U32(uint32(blocks*f.values)), p.x)
		if !f.lows {
			ADDQ(U32(uint32(blocks*f.values)), p.products)
		}
		ADDQ(U32(uint32(blocks*f.values/8)), p.dx)
		if f.lows {
			ADDQ(U32(uint32(blocks*f.values/f.group*4)), p.xs)
		}
	})
	var sums [dotStreams]Register
	for i, a := range acc {
		if f.lows && !across {
			VSUBPS(lows[i], a, a)
		}
		sums[i] = vec{8, ""}.lane(a).AsX()
	}
	w.end(sums, p.dx, p.x)
}
