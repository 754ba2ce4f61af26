package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// genTrig writes the trigonometric functions and the logarithm.
func genTrig(v vec) {
	turning(v, "sin", func(a VecVirtual, x Mem) VecVirtual {
		s, c, q := v.sinCos(a)
		y := v.oddPick(q, c, s)
		v.flip(v.quadrantSign(q), y)
		v.flip(v.signOf(x), y)
		return y
	})
	turning(v, "cos", func(a VecVirtual, _ Mem) VecVirtual {
		s, c, q := v.sinCos(a)
		y := v.oddPick(q, s, c)
		VPADDD(bitsConst(1), q, q) // cos(r + q*pi/2) is negative for q = 1 and 2
		v.flip(v.quadrantSign(q), y)
		return y
	})
	turning(v, "tan", func(a VecVirtual, x Mem) VecVirtual {
		y := v.tan(a)
		v.flip(v.signOf(x), y)
		return y
	})
	unary(v, "atan", v.atan)
	unary(v, "log", v.log)
}

// turning writes a function of angles that stops before a vector with an angle too large for sinCos. f gets |x| and x.
func turning(v vec, name string, f func(a VecVirtual, x Mem) VecVirtual) {
	routine := symbol(name) + v.name
	entries = append(entries, entry{"unary", v.name, name, "{angles: " + routine + "}"})
	TEXT(routine, NOSPLIT, "func(dst, src *float32, blocks int) int")
	Doc(
		routine+" is dst[i] = "+name+
			"(src[i]) for i < blocks*lanes; blocks > 0, dst may be src. It stops before a vector",
		"with an element of magnitude 2^17 or more, and returns how many vectors are left.")
	Pragma("noescape")
	dst := Load(Param("dst"), GP64())
	src := Load(Param("src"), GP64())
	blocks := Load(Param("blocks"), GP64())
	Label("loop")
	x := v.reg()
	VMOVUPS(Mem{Base: src}, x)
	a := v.abs(x)
	large := GP32()
	if v.wide() {
		k := K()
		VCMPPS(Imm(uint64(cmpGE)), f32(angleLimit), a, k)
		KMOVW(k, large)
	} else {
		m := YMM()
		VCMPPS(Imm(uint64(cmpGE)), f32(angleLimit), a, m)
		VMOVMSKPS(m, large)
	}
	TESTL(large, large)
	JNE(LabelRef("end"))
	VMOVUPS(f(a, Mem{Base: src}), Mem{Base: dst})
	ADDQ(Imm(uint64(v.bytes())), src)
	ADDQ(Imm(uint64(v.bytes())), dst)
	DECQ(blocks)
	JNE(LabelRef("loop"))
	Label("end")
	Store(blocks, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// reduce is r = a - q*pi/2 for a >= 0, a < angleLimit: |r| is at most angleMax, and q an integer with the low bits of
// q. If exact is set, low is the rounding error of r.
func (v vec) reduce(a VecVirtual, exact bool) (r, low, q VecVirtual) {
	const shift = 0x4b400000 // 1.5*2^23: adding it rounds to an integer
	n := v.load(bitsConst(shift))
	VFMADD231PS(f32(2/math.Pi), a, n)
	q = v.reg()
	VMOVUPS(n, q)
	VSUBPS(bitsConst(shift), n, n)
	// The first difference is exact: both sides are multiples of 2^-24, and it is below 1. If a is close to a multiple
	// of pi/2, only the last operation rounds. What pi/2 has beyond its third part is below 2^-70.
	part := halfPi()
	r = a
	VFNMADD231PS(f32(part[0]), n, r)
	if !exact {
		VFNMADD231PS(f32(part[1]), n, r)
		VFNMADD231PS(f32(part[2]), n, r)
		return r, nil, q
	}
	p, e, back := v.reg(), v.reg(), v.reg()
	VMULPS(f32(part[1]), n, p)
	VMOVUPS(p, e)
	VFMSUB231PS(f32(part[1]), n, e) // the exact product is p + e
	first := r
	r, low = v.reg(), v.reg()
	VSUBPS(p, first, r)
	VSUBPS(first, r, back) // the part of -p that is in r
	VADDPS(back, p, p)
	VSUBPS(back, r, back)
	VSUBPS(back, first, low)
	VSUBPS(p, low, low) // r + low is first - p
	VSUBPS(e, low, low)
	VFNMADD231PS(f32(part[2]), n, low)
	return r, low, q
}

// sinCos returns the sine and the cosine of the reduced angle, and its quadrant.
func (v vec) sinCos(a VecVirtual) (s, c, q VecVirtual) {
	r, _, q := v.reduce(a, false)
	z := v.reg()
	VMULPS(r, r, z)
	c = v.horner(z, cosPoly())
	VFMADD213PS(f32(1), z, c)
	p := v.horner(z, sinPoly())
	VMULPS(r, z, z)
	VFMADD231PS(p, z, r) // r + r*z*p
	return r, c, q
}

// tan is t = r + r^3 p(r^2), or -1/t in odd quadrants.
func (v vec) tan(a VecVirtual) VecVirtual {
	r, low, q := v.reduce(a, true)
	z := v.reg()
	VMULPS(r, r, z)
	p := v.horner(z, tanPoly())
	VMULPS(r, z, z)
	VFMADD213PS(low, z, p)
	VADDPS(p, r, r)
	y := v.oddPick(q, v.load(f32(-1)), r)
	VDIVPS(v.oddPick(q, r, v.load(f32(1))), y, y)
	return y
}

// oddPick returns odd in the lanes where q is odd, even elsewhere.
func (v vec) oddPick(q, odd, even Register) VecVirtual {
	out := v.reg()
	if v.wide() {
		k := K()
		VPTESTMD(bitsConst(1), q, k)
		VBLENDMPS(odd, even, k, out)
	} else {
		m := YMM()
		VPSLLD(Imm(31), q, m)
		VBLENDVPS(m, odd, even, out)
	}
	return out
}

// quadrantSign returns a register whose sign is bit 1 of q.
func (v vec) quadrantSign(q Register) VecVirtual {
	s := v.reg()
	VPSLLD(Imm(30), q, s)
	return s
}

func (v vec) signOf(x Mem) VecVirtual {
	s := v.reg()
	VMOVUPS(x, s)
	return s
}

// flip negates y where s is negative. It overwrites s.
func (v vec) flip(s, y Register) {
	v.and(bitsConst(0x80000000), s, s)
	v.xor(s, y, y)
}

// atan is t + t^3 p(t^2) with the sign of x: t is |x| up to 1; beyond, t is -1/|x| and pi/2 is added.
func (v vec) atan(x VecVirtual) VecVirtual {
	a := v.abs(x)
	one := v.load(f32(1))
	t := v.pick(cmpLT, one, a, v.load(f32(-1)), a)
	den := v.pick(cmpLT, one, a, a, one)
	VDIVPS(den, t, t)
	z := v.reg()
	VMULPS(t, t, z)
	p := v.horner(z, atanPoly())
	VMULPS(t, z, z)
	const high = 0x1.921fb6p+0
	low := v.pick(cmpLT, one, a, v.load(f32(math.Pi/2-high)), v.zero())
	VFMADD213PS(low, z, p)
	VADDPS(p, t, t)
	VADDPS(v.pick(cmpLT, one, a, v.load(f32(high)), v.zero()), t, t)
	v.withSign(x, t)
	return t
}
