package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// wideDot writes the product of a block of weights and its activations, with AVX-512. On Zen 4, an instruction on 64
// bytes occupies a unit for two cycles, and only one load of 64 bytes starts per cycle. Therefore the bodies avoid
// shifts, and share loaded activations between rows or groups. High nibbles are not shifted down: they count as 16
// times their value.
type wideDot struct {
	*packedBlock
	half       Register // for q4_0: pointer to a table of the values of all f16
	row, block int
	values     int           // in a block
	px, ps     Register      // pointers to the activations and their sums
	acc        VecVirtual    // sums of the row
	low        VecVirtual    // for q4_K: sums of minimums, which are subtracted at the end
	x          [2]VecVirtual // the activations of a block of 32; all rows share them
	start      VecVirtual    // for q4_0: -136 times x[1]
}

// wideConstants loads the constants of a body into registers: Z29 is for magic, the others are tables, masks and
// offsets.
func (p *wideDot) wideConstants(name string) {
	switch name {
	case "Q4_0":
		VMOVUPS(floatsFrom("sixteenfold"+name, 8, 16), Z31)
		VMOVUPS(f32(1.0/16), Z30)
		VMOVUPS(f32(-136), Z29)
	case "Q4_K":
		VMOVUPS(floatsFrom("sixteenfold"+name, 0, 16), Z31)
		VMOVUPS(bitsConst(0xf0), Z30)
		VMOVUPS(bitsConst(0x4b000000), Z29)
		VMOVUPS(f32(1<<23), Z28)
	case "Q6_K":
		VMOVUPS(bytesConst(0x0f), Z31)
		VMOVUPS(bitsConst(0x3f), Z30)
		VMOVUPS(bitsConst(0x4b000000), Z29)
		VMOVUPS(f32(1<<23+32), Z28)
		VMOVUPS(bitsConst(0x3f<<8), Z27)
		VMOVUPS(halfTable("leftShifts", 0x00040004, 0x00020002), Z26)
		VMOVUPS(halfTable("rightShifts", 0, 0x00020002), Z25)
		VMOVUPS(f32(1<<23+32<<8), Z24)
		VMOVUPS(f32(1<<23+32<<16), Z23)
		VMOVUPS(bitsConst(0x3f<<16), Z22)
		for i, r := range []Register{Z21, Z20, Z19, Z18} {
			VMOVUPS(fourfold(i), r)
		}
	}
}

// magic converts integers to floats without a conversion: it makes t & mask the lowest bits of the float 2^23 and
// subtracts offset, which includes the 2^23. It overwrites t.
func (p *wideDot) magic(t VecVirtual, mask, offset Register) VecVirtual {
	VPTERNLOGD(Imm(0xea), Z29, mask, t) // t & mask | Z29 (2^23)
	VSUBPS(offset, t, t)
	return t
}

// load loads x.
func (p *wideDot) load() {
	for i := range p.x {
		p.x[i] = p.reg()
		VMOVUPS(p.activations(16*i), p.x[i])
	}
}

func (p *wideDot) activations(i int) Mem { return Mem{Base: p.px, Disp: 4 * (p.block*p.values + i)} }

// add adds the product of 32 values with x, scaled by the f16 at byte 0, to the sums.
func (p *wideDot) add(values [2]VecVirtual) {
	t, scale := values[0], p.reg()
	VMULPS(p.x[0], t, t)
	VFMADD231PS(p.x[1], values[1], t)
	p.halfAt(p.vec, 0, scale)
	VFMADD231PS(scale, t, p.acc)
}

func (p *wideDot) q8_0() {
	p.add([2]VecVirtual{p.float(p.dwords(2, true)), p.float(p.dwords(18, true))})
}

// nibbles returns the low and the high nibbles of 16 bytes as floats: 16*(nibble - the format's offset).
func (p *wideDot) nibbles(i int) (low, high VecVirtual) {
	high, low = p.dwords(i, false), p.reg()
	VPERMPS(Z31, high, low) // a table, indexed by the lowest four bits
	return low, p.magic(high, Z30, Z28)
}

// q4_0 reads a byte b = l + 16*h as a float, which takes one instruction less than its high nibble h would take. With
// x0 and x1 the activations of l and h,
//
//	16*(x0*(l-8) + x1*(h-8)) = b*x1 - 136*x1 + 16*(l-8) * (x0 - x1/16)
//
// The rows share -136*x1 and x0 - x1/16. Scales come from a table: the processor is busy with arithmetic, and to
// convert them takes longer.
func (p *wideDot) q4_0() {
	b, low, half := p.dwords(2, false), p.reg(), GP64()
	VPERMPS(Z31, b, low) // a table, indexed by the lowest four bits
	VCVTDQ2PS(b, b)
	VFMADD213PS(p.start, p.x[1], b)
	VFMADD231PS(p.x[0], low, b)
	MOVWQZX(p.at(0), half)
	VFMADD231PS_BCST(Mem{Base: p.half, Index: half, Scale: 4}, b, p.acc)
}

func (p *wideDot) load4_0() {
	p.load()
	p.start = p.reg()
	VMULPS(Z29, p.x[1], p.start)
	VFNMADD231PS(Z30, p.x[1], p.x[0])
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

// q6_K joins the bits of 64 values to bytes. Lane l then holds values 4*l to 4*l+3, which have the same scale. It reads
// the byte of each as a float without moving it, so the activations are divided by the factors of the bytes: 1, 256,
// 65536, and 65536 again, because the last byte is shifted by one (see arrangeQuads in package stored).
func (p *wideDot) q6_K() {
	s, d := p.reg(), p.reg()
	p.halfAt(p.vec, 208, d)
	VPMOVSXBD(p.at(192), s)
	VCVTDQ2PS(s, s)
	VMULPS(d, s, s)
	for h := range 2 {
		nibbles, upper := p.reg(), p.reg()
		VMOVUPS(p.at(64*h), nibbles)
		VBROADCASTI64X4(p.at(128+32*h), upper)
		for part := range 2 { // low nibbles, then high ones
			q := p.reg()
			if part == 0 {
				VPSLLVW(Z26, upper, q)
			} else {
				VPSRLVW(Z25, upper, q)
				VPSRLW(Imm(4), nibbles, nibbles)
			}
			VPTERNLOGD(Imm(0xd8), Z31, nibbles, q) // bits of Z31 from nibbles, others from q
			var sum VecVirtual
			for b, offset := range []Register{Z28, Z24, Z23, Z23} {
				t := p.reg()
				if b < 3 {
					VMOVAPS(q, t)
				} else {
					VPSRLD(Imm(8), q, t)
				}
				p.magic(t, []Register{Z30, Z27, Z22, Z22}[b], offset)
				x := p.activations(128*h + 64*part + 16*b)
				if b == 0 {
					VMULPS(x, t, t)
					sum = t
				} else {
					VFMADD231PS(x, t, sum)
				}
			}
			scales := p.reg()
			VPERMPS(s, []Register{Z21, Z20, Z19, Z18}[2*h+part], scales)
			VFMADD231PS(scales, sum, p.acc)
		}
	}
}

// halfTable returns a constant of 16 dwords: low in the lower half of the vector and high in the upper half.
func halfTable(name string, low, high uint32) Mem {
	return lanesConst(name, 16, func(l int) uint32 { return []uint32{low, high}[l/8] })
}

// fourfold returns the indices of a permutation that repeats lanes 4*i to 4*i+3 four times each.
func fourfold(i int) Mem {
	return lanesConst(fmt.Sprint("fourfold", i), 16, func(l int) uint32 { return uint32(4*i + l/4) })
}
