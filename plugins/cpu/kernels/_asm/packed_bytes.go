package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// genPackedBytes writes products of packed weights and a vector of bytes, for AVX2 and for AVX-512 with VNNI. Both use
// vectors of 32 bytes, because a block of most formats has no more, but for those of blockPair, blockQuad and
// wideBlock.
func genPackedBytes(v vec) {
	for _, f := range integerFormats {
		_, wide := wideBlocks[f.name]
		switch {
		case v.wide() && wide:
			(&wideBlock{integerFormat: f}).dot()
		case v.wide() && f.name == "Q8_0":
			blockPair{f}.dot()
		case v.wide() && f.name == "Q4_0":
			blockQuad{f}.dot()
		case !v.wide() && acrossRows[f.name] != nil:
			byteDot(f, v, acrossRows[f.name])
		default:
			byteDot(f, v, bytesOf(f))
		}
	}
}

// byteBlock writes the product of a block of weights and its activations, for one of the rows of weights that are read
// at once.
type byteBlock struct {
	integerBlock
	// exact: nothing is added to the integers of the weights, so there is no excess (see byteDot)
	vnni, exact         bool
	block               int      // index in the iteration of the loop
	values              int      // in a block
	x, dx, xs, products Register // arguments of the routine, advanced by iterations; products is excess
	room                Mem      // 128 bytes of the stack
	// of the row: sums of scaled products; sums of what is subtracted from them
	acc, lows VecVirtual
	rows      streams                // pointers to the rows: w is rows[row]
	sum       [dotStreams]VecVirtual // the acc of each row
	across    rowsOfBlocks
}

// sums returns 8 floats: sums of four products of the unsigned bytes u and the activations from i on, plus their
// excess.
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

// signedSums is sums for signed bytes. With VNNI it adds 128 to them. Without VNNI the sum of two products of such
// bytes would overflow 16 bits, so it moves the signs to the activations instead.
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

// nibbleTable returns a constant of eight dwords: low in the lower half of the vector, for low nibbles, and high in the
// upper half.
func nibbleTable(name string, low, high uint32) Mem {
	return lanesConst(name, 8, func(l int) uint32 { return []uint32{low, high}[l/4] })
}

func vpdpbusd(x Op, u, t Register) {
	Instruction(
		&ir.Instruction{Opcode: "VPDPBUSD", Operands: []Op{x, u, t}, Inputs: []Op{x, u, t}, Outputs: []Op{t},
			ISA: []string{"AVX512VNNI", "AVX512VL"}})
}

// dwords returns a constant of eight dwords, in which the numbers repeat.
func dwords(name string, numbers ...uint32) Mem {
	return lanesConst(name, 8, func(l int) uint32 { return numbers[l%len(numbers)] })
}

// doubled returns the indices of a permutation that repeats each lane of a half twice.
func doubled(half int) Mem {
	return laneOrder(4+half, func(l int) int { return 4*half + l/2 })
}

func laneOrder(n int, lane func(l int) int) Mem {
	return lanesConst(fmt.Sprint("laneOrder", n), 8, func(l int) uint32 { return uint32(lane(l)) })
}

// bytesOf returns a body for formats that have none of their own. It multiplies the integers that integerFormat.body
// unpacks. body stores the scales of groups, and their lows, in room.
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

// halfOrder returns the indices of a permutation that fills the lower half of a vector with its lane 0 and the upper
// half with its lane 1.
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
	// the number of blocks is in memory, because some formats need all registers
	n, ahead, w := AllocLocal(8), prefetchAhead(), gp64s()
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
				p.w, p.acc, p.lows = w[i], acc[i], lows[i]
				params := []param{{"w", p.w}, {"acc", p.acc}, {"block", p.block}}
				if f.lows {
					params = append(params, param{"low", p.lows})
				}
				macro := strings.ToUpper("dot_" + f.name + "_" + set)
				macroUse(macro, macro+dotBlockDoc, params, func() { body(p) })
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
