package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// wideDot writes the product of a block of weights and its activations, with AVX-512. On Zen 4, an instruction on 64 bytes occupies a unit for
// two cycles, and only one load of 64 bytes starts per cycle. Therefore the bodies avoid shifts, and share loaded activations between rows or
// groups. High nibbles are not shifted down: they count as 16 times their value.
type wideDot struct {
	*packedBlock
	row, block int
	values     int           // in a block
	px, ps     Register      // pointers to the activations and their sums
	acc        VecVirtual    // sums of the row
	low        VecVirtual    // for q4_K: sums of minimums, which are subtracted at the end
	x          [2]VecVirtual // the activations of a block of 32; all rows share them
}

// wideConstants loads the constants of a body into registers: Z29 is for magic, the others are tables, masks and offsets.
func (p *wideDot) wideConstants(name string) {
	switch name {
	case "Q4_0", "Q4_K":
		offset := 8
		if name == "Q4_K" {
			offset = 0
		}
		VMOVUPS(bitsConst(0xf0), Z30)
		VMOVUPS(bitsConst(0x4b000000), Z29)
		VMOVUPS(f32(1<<23+16*float64(offset)), Z28)
		table := GLOBL("sixteenfold"+name, 8|16)
		for i := range 16 {
			DATA(4*i, U32(math.Float32bits(float32(16*(i-offset)))))
		}
		VMOVUPS(table, Z31)
	case "Q6_K":
		VMOVUPS(bitsConst(0x0f), Z31)
		VMOVUPS(bitsConst(0x3f), Z30)
		VMOVUPS(bitsConst(0x4b000000), Z29)
		VMOVUPS(f32(1<<23+32), Z28)
		VMOVUPS(bitsConst(0xff), Z27)
		VMOVUPS(bitsConst(0x3f0), Z26)
		VMOVUPS(f32(1<<23+16*32), Z25)
	}
}

// magic converts integers to floats without a conversion: it makes t & mask the lowest bits of the float 2^23 and subtracts offset, which
// includes the 2^23. It overwrites t.
func (p *wideDot) magic(t VecVirtual, mask, offset Register) VecVirtual {
	VPTERNLOGD(Imm(0xea), Z29, mask, t) // t & mask | Z29 (2^23)
	VSUBPS(offset, t, t)
	return t
}

// load loads x at the first row.
func (p *wideDot) load() {
	if p.row > 0 {
		return
	}
	for i := range p.x {
		p.x[i] = p.reg()
		VMOVUPS(p.activations(16*i), p.x[i])
	}
}

func (p *wideDot) activations(i int) Mem { return Mem{Base: p.px, Disp: 4 * (p.block*p.values + i)} }

// add adds the product of 32 values with x, scaled by the f16 at byte 0, to the sums.
func (p *wideDot) add(values [2]VecVirtual) {
	t, half := values[0], GP64()
	VMULPS(p.x[0], t, t)
	VFMADD231PS(p.x[1], values[1], t)
	MOVWQZX(p.at(0), half)
	VFMADD231PS_BCST(Mem{Base: p.half, Index: half, Scale: 4}, t, p.acc)
}

func (p *wideDot) q8_0() {
	p.load()
	p.add([2]VecVirtual{p.float(p.dwords(2, true)), p.float(p.dwords(18, true))})
}

// nibbles returns the low and the high nibbles of 16 bytes as floats: 16*(nibble - the format's offset).
func (p *wideDot) nibbles(i int) (low, high VecVirtual) {
	high, low = p.dwords(i, false), p.reg()
	VPERMPS(Z31, high, low) // a table, indexed by the lowest four bits
	return low, p.magic(high, Z30, Z28)
}

func (p *wideDot) q4_0() {
	p.load()
	low, high := p.nibbles(2)
	p.add([2]VecVirtual{low, high})
}

func (p *wideDot) q4_K() {
	m := p.scalesAndMinimums()
	VFMADD231PS(Mem{Base: p.ps, Disp: 32 * p.block}, m, p.low)
	for c := range 4 {
		low0, high0 := p.nibbles(16 + 32*c)
		low1, high1 := p.nibbles(32 + 32*c)
		for h, q := range [2][2]VecVirtual{{low0, low1}, {high0, high1}} {
			VMULPS(p.activations(64*c+32*h), q[0], q[0])
			VFMADD231PS(p.activations(64*c+32*h+16), q[1], q[0])
			VFMADD231PS_BCST(p.room.Offset(4*(2*c+h)), q[0], p.acc)
		}
	}
}

// q6_K has one byte with the upper two bits of four values, those of value j at bits 2j. Shifted left by 4 and by 2, the bits of values 0 and
// 1 lie above their low nibbles. The bits of values 2 and 3 then lie above their high nibbles.
func (p *wideDot) q6_K() {
	s := p.float(p.dwords(192, true))
	d := p.reg()
	p.halfAt(p.vec, 208, d)
	VMULPS(d, s, s)
	VMULPS(sixteenthScales(), s, s)
	VMOVUPS(s, p.room)
	for h := range 2 {
		for part := range 2 {
			upper := p.dwords(128+32*h+16*part, false)
			above := [2]VecVirtual{p.reg(), p.reg()}
			VPSLLD(Imm(4), upper, above[0])
			VPSLLD(Imm(2), upper, above[1])
			for j := range 2 {
				low := p.dwords(64*h+32*j+16*part, false)
				high := p.reg()
				VMOVAPS(low, high)
				VPTERNLOGD(Imm(0xe4), Z31, above[j], low) // bits of Z31 from low, others from above
				VPTERNLOGD(Imm(0xe4), Z27, above[j], high)
				for k, q := range [2]VecVirtual{p.magic(low, Z30, Z28), p.magic(high, Z26, Z25)} {
					VMULPS(p.activations(128*h+32*(j+2*k)+16*part), q, q)
					VFMADD231PS_BCST(p.room.Offset(4*(8*h+2*(j+2*k)+part)), q, p.acc)
				}
			}
		}
	}
}

var q6Scales Mem

// sixteenthScales returns factors for the scales: 1/16 for groups of high nibbles, 1 for the others.
func sixteenthScales() Mem {
	if q6Scales.Base == nil {
		q6Scales = GLOBL("sixteenthScales", 8|16)
		for i := range 16 {
			DATA(4*i, U32(math.Float32bits([]float32{1, 1.0 / 16}[i/4%2])))
		}
	}
	return q6Scales
}
