package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Binary functions of floats that compute in float64: half a vector of floats becomes a vector of doubles. Masks are
// vectors whose lanes are all ones or all zeros.

// genDoubles writes pow, remainder and mod.
func genDoubles(v vec) {
	d := doubles{v}
	d.binary("pow", d.pow)
	d.binary("remainder", func(x, y VecVirtual) VecVirtual { return d.remainder("remainder", x, y) })
	d.binary("mod", func(x, y VecVirtual) VecVirtual {
		r := d.remainder("mod", x, y)
		wrong := d.xor(r, y) // the signs differ
		wrong = d.and(d.negative(wrong), d.cmp(cmpNE, r, d.zero()))
		return d.add(r, d.and(wrong, y))
	})
}

// doubles has the operations on vectors of doubles. Each returns its result in a new register.
type doubles struct{ v vec }

// cmpNE is true for NaN, unlike the other predicates.
const cmpNE = 4

func (d doubles) binary(name string, f func(x, y VecVirtual) VecVirtual) {
	function := name
	name += "Into" + d.v.name
	entries = append(entries, entry{"binary", d.v.name, function, name})
	TEXT(name, NOSPLIT, "func(dst, a, b *float32, blocks int)")
	Doc(name + " is dst = f(a, b) over blocks*lanes floats; blocks > 0, dst may be a or b.")
	Pragma("noescape")
	dst, a, b := Load(Param("dst"), GP64()), Load(Param("a"), GP64()), Load(Param("b"), GP64())
	n := Load(Param("blocks"), GP64())
	SHLQ(U8(1), n) // halves of vectors
	i := GP64()
	XORQ(i, i)
	Label("loop")
	x, y := d.v.reg(), d.v.reg()
	VCVTPS2PD(Mem{Base: a, Index: i, Scale: 1}, x)
	VCVTPS2PD(Mem{Base: b, Index: i, Scale: 1}, y)
	z := f(x, y)
	if d.v.wide() {
		VCVTPD2PS(z, z.AsY())
		VMOVUPS(z.AsY(), Mem{Base: dst, Index: i, Scale: 1})
	} else {
		VCVTPD2PSY(z, z.AsX())
		VMOVUPS(z.AsX(), Mem{Base: dst, Index: i, Scale: 1})
	}
	ADDQ(Imm(uint64(d.v.bytes()/2)), i)
	DECQ(n)
	JNE(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// longConstants holds constants of 64 bits; see constants.
var longConstants = map[uint64]Mem{}

func (d doubles) bits(bits uint64) Mem {
	m, ok := longConstants[bits]
	if !ok {
		m = GLOBL(fmt.Sprintf("d%016x", bits), 8|16) // RODATA|NOPTR
		for i := range 8 {
			DATA(8*i, U64(bits))
		}
		longConstants[bits] = m
	}
	return m
}

func (d doubles) num(x float64) Mem { return d.bits(math.Float64bits(x)) }

func (d doubles) zero() VecVirtual { return d.v.zero() }

// into emits f(x, y) with the result in a new register. In Go's operand order, the first source is the last operand.
func (d doubles) into(f func(...Op), x VecVirtual, y Op) VecVirtual {
	r := d.v.reg()
	f(y, x, r)
	return r
}

func (d doubles) add(x VecVirtual, y Op) VecVirtual { return d.into(VADDPD, x, y) }
func (d doubles) sub(x VecVirtual, y Op) VecVirtual { return d.into(VSUBPD, x, y) }
func (d doubles) mul(x VecVirtual, y Op) VecVirtual { return d.into(VMULPD, x, y) }
func (d doubles) div(x VecVirtual, y Op) VecVirtual { return d.into(VDIVPD, x, y) }

// min and max return y if either is NaN.
func (d doubles) min(x VecVirtual, y Op) VecVirtual { return d.into(VMINPD, x, y) }
func (d doubles) max(x VecVirtual, y Op) VecVirtual { return d.into(VMAXPD, x, y) }

func (d doubles) and(x VecVirtual, y Op) VecVirtual { return d.into(VANDPD, x, y) }
func (d doubles) or(x VecVirtual, y Op) VecVirtual  { return d.into(VORPD, x, y) }
func (d doubles) xor(x VecVirtual, y Op) VecVirtual { return d.into(VXORPD, x, y) }

// without is x and not mask.
func (d doubles) without(x, mask VecVirtual) VecVirtual { return d.into(VANDNPD, mask, x) }

func (d doubles) abs(x VecVirtual) VecVirtual  { return d.and(x, d.bits(1<<63-1)) }
func (d doubles) sign(x VecVirtual) VecVirtual { return d.and(x, d.bits(1<<63)) }

func (d doubles) load(m Mem) VecVirtual { return d.v.load(m) }

func (d doubles) trunc(x VecVirtual) VecVirtual {
	r := d.v.reg()
	if d.v.wide() {
		VRNDSCALEPD(Imm(3), x, r)
	} else {
		VROUNDPD(Imm(3), x, r)
	}
	return r
}

// cmp returns the mask of the lanes where x PREDICATE y is true.
func (d doubles) cmp(predicate uint8, x VecVirtual, y Op) VecVirtual {
	m := d.v.reg()
	if d.v.wide() {
		k := K()
		VCMPPD(Imm(uint64(predicate)), y, x, k)
		VPMOVM2Q(k, m)
	} else {
		VCMPPD(Imm(uint64(predicate)), y, x, m)
	}
	return m
}

// negative returns the mask of the lanes whose sign bit is set.
func (d doubles) negative(x VecVirtual) VecVirtual {
	m := d.v.reg()
	if d.v.wide() {
		k := K()
		VPMOVQ2M(x, k)
		VPMOVM2Q(k, m)
	} else {
		VPCMPGTQ(x, d.zero(), m)
	}
	return m
}

// pick returns yes where the mask is set, else no.
func (d doubles) pick(mask VecVirtual, yes, no VecVirtual) VecVirtual {
	r := d.v.reg()
	if d.v.wide() {
		VMOVUPD(mask, r)
		VPTERNLOGQ(Imm(0xca), no, yes, r)
	} else {
		VBLENDVPD(mask, yes, no, r)
	}
	return r
}

// jumpIfAny jumps if any lane of the mask is set.
func (d doubles) jumpIfAny(mask VecVirtual, label string) {
	if d.v.wide() {
		k, g := K(), GP32()
		VPMOVQ2M(mask, k)
		KMOVB(k, g)
		TESTL(g, g)
	} else {
		VPTEST(mask, mask)
	}
	JNE(LabelRef(label))
}

// remainder is x - trunc(x/y)*y with the sign of x. It repeats r -= q*y with q = r/y, rounded. r - q*y has no rounding
// error if q is an integer below 2^53; nor if q is larger, when it makes r smaller by a factor of 2^53.
func (d doubles) remainder(name string, x, y VecVirtual) VecVirtual {
	divisor := d.min(d.load(d.num(1e300)), d.abs(y)) // since 0 times infinity is NaN; min keeps a NaN in y
	r := d.v.reg()
	VMOVUPD(x, r)
	Label(name + "Again")
	q := d.trunc(d.div(r, divisor))
	VFNMADD231PD(divisor, q, r)
	d.jumpIfAny(d.cmp(cmpGT, d.abs(q), d.num(1<<52)), name+"Again")
	wrong := d.and(d.negative(d.xor(r, x)), d.cmp(cmpNE, r, d.zero())) // a quotient was rounded up
	r = d.add(r, d.and(wrong, d.or(divisor, d.sign(x))))
	return d.or(d.abs(r), d.sign(x))
}

// horner is c[0] + c[1] x + ...
func (d doubles) horner(x VecVirtual, c []float64) VecVirtual {
	s := d.load(d.num(c[len(c)-1]))
	for i := len(c) - 2; i >= 0; i-- {
		VFMADD213PD(d.num(c[i]), x, s)
	}
	return s
}
