package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// pow is |x|^y = 2^(y log2 |x|), with the signs and special values of C99. Nearly all results are correctly rounded,
// since the polynomials are as precise as float64. A vector of positive finite x and finite y takes a shorter path.
func (d doubles) pow(x, y VecVirtual) VecVirtual {
	z := d.v.reg()
	d.jumpIfSpecial(x, y, "special")
	VMOVUPD(d.exp2(d.mul(y, d.log2(x))), z)
	JMP(LabelRef("store"))
	Label("special")
	VMOVUPD(d.specialPow(x, y), z)
	Label("store")
	return z
}

// jumpIfSpecial jumps unless all x are in (0, Inf) and all y are finite.
func (d doubles) jumpIfSpecial(x, y VecVirtual, label string) {
	if d.v.wide() {
		k := K()
		VCMPPD(Imm(cmpGT), d.zero(), x, k)
		VCMPPD(Imm(cmpLT), d.num(math.Inf(1)), x, k, k)
		VCMPPD(Imm(cmpLT), d.num(math.Inf(1)), d.abs(y), k, k)
		KORTESTB(k, k)
		JCC(LabelRef(label)) // no carry: not all lanes
		return
	}
	usual := d.and(d.cmp(cmpGT, x, d.zero()), d.cmp(cmpLT, x, d.num(math.Inf(1))))
	usual = d.and(usual, d.cmp(cmpLT, d.abs(y), d.num(math.Inf(1))))
	g := GP32()
	VMOVMSKPD(usual, g)
	CMPL(g, Imm(0xf))
	JNE(LabelRef(label))
}

// specialPow is pow for all values.
func (d doubles) specialPow(x, y VecVirtual) VecVirtual {
	magnitude := d.abs(x)
	log := d.log2(magnitude)
	// For 0 and infinity, a number so large that its product with any y but 0 is beyond the range of results.
	log = d.pick(d.cmp(cmpEQ, magnitude, d.zero()), d.load(d.num(-1e300)), log)
	log = d.pick(d.cmp(cmpEQ, magnitude, d.num(math.Inf(1))), d.load(d.num(1e300)), log)
	// The logarithm of 1 is 0, so an infinite y becomes a number.
	z := d.exp2(d.mul(d.max(d.min(y, d.num(1e300)), d.num(-1e300)), log))
	// If x is negative, the result is NaN if y is not an integer, and negative if y is odd.
	whole := d.cmp(cmpEQ, d.trunc(y), y)
	half := d.mul(y, d.num(0.5))
	odd := d.and(whole, d.cmp(cmpNE, d.trunc(half), half))
	z = d.xor(z, d.and(d.sign(x), odd))
	undefined := d.and(d.cmp(cmpLT, x, d.zero()), d.cmp(cmpGT, x, d.num(math.Inf(-1))))
	z = d.or(z, d.without(undefined, whole)) // all ones is a NaN
	unordered := d.cmp(cmpUnordered, x, y)
	z = d.or(z, unordered)
	one := d.or(d.cmp(cmpEQ, y, d.zero()), d.cmp(cmpEQ, x, d.num(1)))
	return d.pick(one, d.load(d.num(1)), z)
}

// log2 is the logarithm of a float above 0: e + log2 1/r + log2(1+z) with x = 2^e * m and m*r = 1+z, where r is 1/m to
// a few bits, from a table. r is 1 for m near 1 and 1/2 for m near 2, so that nothing cancels. z has no rounding error.
func (d doubles) log2(x VecVirtual) VecVirtual {
	e, m := d.v.reg(), d.v.reg()
	if d.v.wide() {
		VGETEXPPD(x, e)
		VGETMANTPD(Imm(0), x, m) // of [1, 2)
	} else {
		const magic = 1<<52 + 1023
		VPSRLQ(Imm(52), x, e)
		e = d.sub(d.or(e, d.num(1<<52)), d.num(magic))
		m = d.or(d.and(x, d.bits(1<<52-1)), d.num(1))
	}
	var r, logs [16]float64
	for j := range r {
		r[j] = float64(float32(1 / (1 + (float64(j)+0.5)/16)))
		switch j {
		case 0:
			r[j] = 1
		case 15:
			r[j] = 0.5
		}
		logs[j] = -math.Log2(r[j])
	}
	index := d.v.reg()
	VPSRLQ(Imm(48), m, index)
	z := d.lookUp("reciprocals", r, index)
	VFMSUB213PD(d.num(1), m, z)
	log := d.add(e, d.lookUp("logs", logs, index))
	VFMADD231PD(d.horner(z, fit(func(z float64) float64 { return math.Log1p(z) / z * math.Log2E }, -1./32, 1./16, 9)),
		z, log)
	return log
}

// exp2 is 2^t = 2^(n/16) * 2^f with an integer n. A table has 2^(n/16) for n modulo 16; the rest of n goes into the
// bits of the exponent. For t outside of [-300, 300], the result is some number out of the range of float32.
func (d doubles) exp2(t VecVirtual) VecVirtual {
	const shift = 1.5 * (1 << 48) // adding it rounds to a multiple of 1/16
	t = d.max(d.min(t, d.num(300)), d.num(-300))
	shifted := d.add(t, d.num(shift))
	f := d.sub(t, d.sub(shifted, d.num(shift)))
	var powers [16]float64
	for j := range powers {
		powers[j] = math.Exp2(float64(j) / 16)
	}
	z := d.lookUp("powers", powers, shifted)
	q := d.mul(f, d.horner(f, fit(func(f float64) float64 { return math.Expm1(f*math.Ln2) / f }, -1./32, 1./32, 5)))
	VFMADD231PD(q, z, z)
	VPSRLQ(Imm(4), shifted, shifted)
	VPSLLQ(Imm(52), shifted, shifted)
	VPADDQ(shifted, z, z)
	return z
}

// lookUp returns table[index], by the low four bits of index.
func (d doubles) lookUp(name string, table [16]float64, index VecVirtual) VecVirtual {
	m, ok := doubleTables[name]
	if !ok {
		m = GLOBL(name, 8|16) // RODATA|NOPTR
		for i, x := range table {
			DATA(8*i, U64(math.Float64bits(x)))
		}
		doubleTables[name] = m
	}
	y := d.v.reg()
	if d.v.wide() {
		VMOVUPD(index, y)
		VPERMI2PD(m.Offset(64), d.load(m), y)
		return y
	}
	base, all := GP64(), d.v.reg()
	LEAQ(m, base)
	VPCMPEQQ(all, all, all)
	VGATHERQPD(all, Mem{Base: base, Index: d.and(index, d.bits(15)), Scale: 8}, y)
	return y
}

// doubleTables holds the tables already written to the file.
var doubleTables = map[string]Mem{}
