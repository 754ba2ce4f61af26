package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Products of packed weights and a vector of bytes, for AVX2. Loads limit their speed. So they multiply the blocks of
// all rows together, and load activations once for all rows.

// acrossRows has the bodies. They subtract lows from byteBlock.acc.
var acrossRows = map[string]func(*byteBlock){"Q8_0": avx2Of8_0, "Q4_0": avx2Of4_0, "Q4_K": avx2Of4_K, "Q6_K": avx2Of6_K}

// rowsOfBlocks holds the constants of such a body in registers.
type rowsOfBlocks struct {
	// words of 1; bytes of 15; shifts of dwords, which move the nibbles of the upper half of a vector to the lower bits
	ones, low, shifts VecVirtual
	upper, halves     VecVirtual // bytes of 0x30; see halfOrder
}

func vectorOf(m Mem) VecVirtual {
	y := YMM()
	VMOVDQU(m, y)
	return y
}

// newRowsOfBlocks loads the constants of a format.
func newRowsOfBlocks(f integerFormat) rowsOfBlocks {
	r := rowsOfBlocks{ones: vectorOf(wordOnes())}
	if f.name != "Q8_0" {
		r.low = vectorOf(bytesConst(15))
	}
	switch f.name {
	case "Q4_0":
		r.shifts = vectorOf(nibbleTable("nibbleShifts", 0, 4))
	case "Q6_K":
		r.upper, r.halves = vectorOf(bytesConst(0x30)), vectorOf(halfOrder())
	}
	return r
}

// load32 returns the activations from i on, their excess, and their scale. excess is nil for formats without one.
func (p *byteBlock) load32(i int, hasExcess bool) (x, excess, scale VecVirtual) {
	i += p.block * p.values
	x, scale = vectorOf(Mem{Base: p.x, Disp: i}), YMM()
	if hasExcess {
		excess = vectorOf(Mem{Base: p.products, Disp: i})
	}
	VBROADCASTSS(Mem{Base: p.dx, Disp: i / 8}, scale)
	return x, excess, scale
}

// pairs returns sums of four products of unsigned bytes u and x, plus excess, as floats. It overwrites u.
func (p *byteBlock) pairs(u, x, excess VecVirtual) VecVirtual {
	VPMADDUBSW(x, u, u)
	VPMADDWD(p.across.ones, u, u)
	if excess != nil {
		VPADDD(excess, u, u)
	}
	VCVTDQ2PS(u, u)
	return u
}

// eachRow calls f with p set up for each row. macro and doc are those of macroUse. The macro has the row, its sum, the
// block and these parameters.
func (p *byteBlock) eachRow(macro, doc string, f func(row int), with ...param) {
	for i, w := range p.rows {
		p.w, p.acc = w, p.sum[i]
		params := []param{{"w", w}, {"acc", p.acc}, {"row", i}, {"block", p.block}}
		macroUse(macro, macro+" "+doc, append(params, with...), func() { f(i) })
	}
}

// What macros do, for their comments.
const (
	dotRowDoc = "adds the products of a row's block to its sum."
	scalesDoc = "stores the scales of a row's block and subtracts its minimums from the sum."
)

// scaled returns the f16 at byte 0 of the block times the scale of the activations.
func (p *byteBlock) scaled(scale VecVirtual) VecVirtual {
	s := p.broadcastHalf(0)
	VMULPS(scale, s, s)
	return s
}

// avx2Of8_0 moves the signs of the weights to the activations, because the sum of two products of unsigned weights
// would overflow 16 bits.
func avx2Of8_0(p *byteBlock) {
	x, _, scale := p.load32(0, false)
	p.eachRow("DOT_Q8_0_AVX2", dotRowDoc, func(int) {
		w, signed := vectorOf(p.at(2)), YMM()
		VPSIGNB(w, x, signed)
		VPABSB(w, w)
		p.add(p.pairs(w, signed, nil), p.scaled(scale))
	})
}

func avx2Of4_0(p *byteBlock) {
	x, excess, scale := p.load32(0, true)
	p.eachRow("DOT_Q4_0_AVX2", dotRowDoc, func(int) {
		u := YMM()
		VBROADCASTI128(p.at(2), u)
		VPSRLVD(p.across.shifts, u, u)
		VPAND(p.across.low, u, u)
		p.add(p.pairs(u, x, excess), p.scaled(scale))
	})
}

func avx2Of4_K(p *byteBlock) {
	dx, xs := vectorOf(Mem{Base: p.dx}), vectorOf(Mem{Base: p.xs})
	room := func(row, i int) Mem { return p.room.Offset(32*row + 4*i) }
	p.eachRow("SCALES_Q4_K", scalesDoc, func(row int) {
		s, m := (&packedBlock{vec: vec{8, "AVX2"}, w: p.w}).sixes()
		VMULPS(p.broadcastHalf(0), s, s)
		VMULPS(dx, s, s)
		VMOVUPS(s, room(row, 0))
		VMULPS(p.broadcastHalf(2), m, m)
		VFNMADD231PS(xs, m, p.acc)
	})
	for c := range 4 {
		x := [2]VecVirtual{vectorOf(Mem{Base: p.x, Disp: 64 * c}), vectorOf(Mem{Base: p.x, Disp: 64*c + 32})}
		p.eachRow("DOT_Q4_K_AVX2", "adds the products of two groups of a row, from group 2*c on.", func(row int) {
			w := vectorOf(p.at(16 + 32*c))
			for h, u := range [2]VecVirtual{w, shiftRight(w, 4)} {
				q, s := YMM(), YMM()
				VPAND(p.across.low, u, q)
				VBROADCASTSS(room(row, 2*c+h), s)
				p.add(p.pairs(q, x[h], nil), s)
			}
		}, param{"c", c})
	}
}

func avx2Of6_K(p *byteBlock) {
	dx := vectorOf(Mem{Base: p.dx})
	room := func(row, h int) Mem { return p.room.Offset(64*row + 32*h) }
	for h := range 2 { // scales of 8 groups of 16 values, which have 4 scales of activations
		order, each := vectorOf(doubled(h)), YMM()
		VPERMPS(dx, order, each)
		p.eachRow("SCALES_Q6_K", "stores the scales of half h of a row's block.", func(row int) {
			s := YMM()
			VPMOVSXBD(p.at(192+8*h), s)
			VCVTDQ2PS(s, s)
			VMULPS(p.broadcastHalf(208), s, s)
			VMULPS(each, s, s)
			VMOVUPS(s, room(row, h))
		}, param{"h", h})
	}
	// A vector of 32 bytes has the low nibbles of values j and the high ones of values j+2. Another one has the upper
	// bits of four of them.
	for h := range 2 {
		for j := range 2 {
			at := [2]int{128*h + 32*j, 128*h + 32*(j+2)}
			var x, excess [2]VecVirtual
			for k := range 2 {
				x[k], excess[k] = vectorOf(Mem{Base: p.x, Disp: at[k]}), vectorOf(Mem{Base: p.products, Disp: at[k]})
			}
			name := fmt.Sprint("DOT_Q6_K_AVX2_", j)
			p.eachRow(name, "adds the products of 64 values of a row, in half h of the block.", func(row int) {
				low, upper := vectorOf(p.at(64*h+32*j)), vectorOf(p.at(128+32*h))
				for k := range 2 {
					q, u := YMM(), YMM()
					VPAND(p.across.low, shiftRight(low, 4*k), q)
					VPAND(p.across.upper, shiftRight(upper, 2*j+4*k-4), u)
					VPOR(u, q, q)
					s := YMM()
					VBROADCASTSD(room(row, h).Offset(8*(j+2*k)), s)
					VPERMILPS(p.across.halves, s, s)
					p.add(p.pairs(q, x[k], excess[k]), s)
				}
			}, param{"h", h})
		}
	}
}
