package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// genMath writes the transcendental functions, dst[i] = f(src[i]) over whole vectors.
func genMath(v vec) {
	unary(v, "exp", func(x VecVirtual) VecVirtual { return v.exp(x, nil) })
	unary(v, "sigmoid", func(x VecVirtual) VecVirtual { return v.sigmoid(x, v.negative(x), nil) })
	unary(v, "silu", func(x VecVirtual) VecVirtual {
		s := v.sigmoid(x, v.negative(x), nil)
		VMULPS(x, s, s)
		return v.farBelow(x, -87, s, func() VecVirtual { return v.timesExp(x, x, nil) })
	})
	unary(v, "tanh", v.tanh)
	unary(v, "gelu", v.gelu)
	unary(v, "gelu_tanh", v.geluTanh)
	unary(v, "erf", v.erf)
	unary(v, "relu", func(x VecVirtual) VecVirtual {
		VMAXPS(x, v.zero(), x) // keeps NaN
		return x
	})
	genTrig(v)
	genPlain(v)
	genFunctions(v)
}

// genPlain writes the functions that take an instruction or two.
func genPlain(v vec) {
	instruction := func(name string, f func(x, y VecVirtual)) {
		unary(v, name, func(x VecVirtual) VecVirtual {
			y := v.reg()
			f(x, y)
			return y
		})
	}
	instruction("neg", func(x, y VecVirtual) { v.xor(bitsConst(0x80000000), x, y) })
	instruction("abs", func(x, y VecVirtual) { v.and(bitsConst(0x7fffffff), x, y) })
	instruction("sqrt", func(x, y VecVirtual) { VSQRTPS(x, y) })
	one := func() VecVirtual { return v.load(f32(1)) }
	instruction("rsqrt", func(x, y VecVirtual) {
		VSQRTPS(x, y)
		VDIVPS(y, one(), y)
	})
	for mode, name := range []string{"round", "floor", "ceil"} { // the modes of VROUNDPS: to nearest even, down, up
		instruction(name, func(x, y VecVirtual) {
			if v.wide() {
				VRNDSCALEPS(Imm(uint64(mode)), x, y)
			} else {
				VROUNDPS(Imm(uint64(mode)), x, y)
			}
		})
	}
}

// unary writes a function without parameters.
func unary(v vec, name string, f func(VecVirtual) VecVirtual) {
	routine := symbol(name) + v.name
	entries = append(entries, entry{"unary", v.name, name, "{whole: " + routine + "}"})
	TEXT(routine, NOSPLIT, "func(dst, src *float32, blocks int)")
	Doc(routine + " is dst[i] = " + name + "(src[i]) for i < blocks*lanes; blocks > 0, dst may be src.")
	Pragma("noescape")
	dst := Load(Param("dst"), GP64())
	src := Load(Param("src"), GP64())
	blocks := Load(Param("blocks"), GP64())
	Label("loop")
	x := v.reg()
	VMOVUPS(Mem{Base: src}, x)
	y := f(x)
	VMOVUPS(y, Mem{Base: dst})
	ADDQ(Imm(uint64(v.bytes())), src)
	ADDQ(Imm(uint64(v.bytes())), dst)
	DECQ(blocks)
	JNE(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// ln2Hi is ln(2) in 15 bits, so that products with integers below 2^9 are exact.
const ln2Hi = 0.693145751953125

// exp is e^x or, if low is given, e^(x+low), where low is far below an ulp of x: so an argument can have more than
// single precision. NaN stays NaN, overflow is +Inf, underflow is gradual.
func (v vec) exp(x VecVirtual, low Register) VecVirtual {
	// x*log2(e) = n + rest. Adding 1.5*2^23 rounds to an integer.
	const shift = 0x4b400000
	c, n, shifted := v.reg(), v.reg(), v.reg()
	var q VecVirtual
	name := "EXP_" + v.name
	if low != nil {
		name = "EXP_LOW_" + v.name
	}
	macroUse(name, name+" sets q and n so that e^x is q*2^n.", []param{{"x", x}, {"q", &q}, {"n", n}}, func() {
		lo, hi := v.load(f32(-104)), v.load(f32(89))
		VMAXPS(x, lo, c) // min and max return the last source, x, if it is NaN
		VMINPS(c, hi, c)
		VMOVUPS(bitsConst(shift), n)
		VFMADD231PS(f32(math.Log2E), c, n)
		if !v.wide() {
			VMOVUPS(n, shifted)
		}
		VSUBPS(bitsConst(shift), n, n)
		r := v.reg()
		VMOVUPS(c, r)
		VFNMADD231PS(f32(ln2Hi), n, r)
		if low != nil {
			VADDPS(low, r, r)
		}
		VFNMADD231PS(f32(math.Ln2-ln2Hi), n, r)
		q = v.horner(r, expPoly())
		r2 := v.reg()
		VMULPS(r, r, r2)
		VFMADD213PS(r, r2, q) // r2*q + r
		VADDPS(f32(1), q, q)
	})
	v.scale(q, n, shifted)
	return q
}

func (v vec) abs(x Register) VecVirtual {
	a := v.reg()
	v.and(bitsConst(0x7fffffff), x, a)
	return a
}

// sigmoid is 1/(1+e^-x), computed from exp(-|x|) so that neither tail loses digits. The arguments are x and
// -|x|, which may have a part of lower digits, see exp.
func (v vec) sigmoid(x, neg VecVirtual, low Register) VecVirtual {
	e := v.exp(neg, low)
	d := v.reg()
	VADDPS(f32(1), e, d)
	num := v.pick(cmpLT, x, v.zero(), e, v.load(f32(1)))
	VDIVPS(d, num, num)
	return num
}

// tanh is computed by pieces of |x|.
func (v vec) tanh(x VecVirtual) VecVirtual { return v.odd(x, tanhPieces()) }

// erf is computed by pieces of |x|.
func (v vec) erf(x VecVirtual) VecVirtual { return v.odd(x, erfPieces()) }

// odd is an odd function that is constant from the limit of its pieces on. p gives it for |x|.
func (v vec) odd(x VecVirtual, p pieces) VecVirtual {
	a := v.abs(x)
	VMINPS(a, v.load(f32(p.limit)), a) // NaN stays NaN
	y := v.pieces(a, p)
	v.withSign(x, y)
	return y
}

// withSign sets the sign of y, which is not negative, to that of x.
func (v vec) withSign(x, y Register) {
	if v.wide() {
		VPTERNLOGD(Imm(0xf8), bitsConst(0x80000000), x, y) // y or x and the constant
		return
	}
	s := v.reg()
	v.and(bitsConst(0x80000000), x, s)
	v.or(s, y, y)
}

// gelu is max(x, 0) + gelu(-|x|). Vectors with an |x| beyond the limit of the pieces are rare. Only the elements beyond
// it are computed by another formula, because a result must not depend on the other lanes.
func (v vec) gelu(x VecVirtual) VecVirtual {
	p := geluPieces()
	y, a := v.reg(), v.abs(x)
	VMAXPS(x, v.zero(), y) // -0 stays -0
	VADDPS(v.pieces(a, p), y, y)
	limit := v.load(f32(p.limit))
	v.jumpIfAll(cmpLT, a, limit, "store")
	VMOVUPS(v.pick(cmpLT, a, limit, y, v.largeGelu(x)), y)
	Label("store")
	return y
}

// jumpIfAll jumps if x PREDICATE y is true in all lanes.
func (v vec) jumpIfAll(predicate uint8, x, y Register, label string) {
	if v.wide() {
		k := K()
		VCMPPS(Imm(uint64(predicate)), y, x, k)
		KORTESTW(k, k)
		JCS(LabelRef(label)) // carry: all ones
		return
	}
	m, g := v.reg(), GP32()
	VCMPPS(Imm(uint64(predicate)), y, x, m)
	VMOVMSKPS(m, g)
	CMPL(g, U32(0xff))
	JEQ(LabelRef(label))
}

// largeGelu is x*Phi(x) for all x. Phi(-a) = e^(-a*a/2) * g(a), where g, the scaled tail of the normal distribution,
// varies little.
func (v vec) largeGelu(x VecVirtual) VecVirtual {
	p := tailPieces()
	c := v.abs(x)
	VMINPS(c, v.load(f32(p.limit)), c) // e^(-c*c/2) is 0 there
	// -a*a/2 = n*ln(2) - u/2 with u = a*a + 2n*ln(2), where a*a is not rounded: its error would appear a*a/2 times as
	// large in the result.
	const shift = 0x4b400000 // 1.5*2^23: adding it rounds to an integer
	square, shifted, n, u := v.reg(), v.load(bitsConst(shift)), v.reg(), v.reg()
	VMULPS(c, c, square)
	VFNMADD231PS(f32(math.Log2E/2), square, shifted)
	VSUBPS(bitsConst(shift), shifted, n)
	VMULPS(f32(2*ln2Hi), n, u) // exact
	VFMADD231PS(c, c, u)
	VFMADD231PS(f32(2*(math.Ln2-ln2Hi)), n, u)
	t := v.horner(u, expHalfPoly())
	VMULPS(v.pieces(c, p), t, t)
	// Phi(x) is t*2^n for a negative x, else 1 - t*2^n. For a negative x, t is multiplied by x first, because t*2^n may
	// be denormal and have few digits.
	y, one := v.minus(c), v.load(f32(1))
	VMULPS(t, y, y)
	v.scaleAny(y, n, shifted)
	zero := v.reg()
	VSUBPS(x, x, zero)
	VSUBPS(zero, y, y) // -Inf gives NaN, as -Inf * 0 does
	v.scaleAny(t, n, shifted)
	VSUBPS(t, one, t)
	VMULPS(x, t, t)
	if v.wide() {
		k := K()
		VCMPPS(Imm(cmpGE), v.zero(), x, k)
		VMOVAPS(t, k, y)
	} else {
		VBLENDVPS(x, y, t, y) // by the sign of x
	}
	return y
}

// scaleAny is y = y * 2^n for any y, see scale. It is slow where the result is denormal.
func (v vec) scaleAny(y, n, shifted VecVirtual) {
	if v.wide() {
		VSCALEFPS(n, y, y)
		return
	}
	i, half, bias := v.reg(), v.reg(), v.load(bitsConst(127))
	VPSUBD(bitsConst(0x4b400000), shifted, i)
	VPSRAD(Imm(1), i, half)
	VPSUBD(half, i, i)
	for _, e := range []VecVirtual{half, i} {
		VPADDD(bias, e, e)
		VPSLLD(Imm(23), e, e)
		VMULPS(e, y, y)
	}
}

// negative is -|x|.
func (v vec) negative(x Register) VecVirtual {
	n := v.reg()
	v.or(bitsConst(0x80000000), x, n)
	return n
}

// timesExp is x*e^(k+low) for a k so small that e^k may be denormal and have few digits, though the product has all.
// low may be nil.
func (v vec) timesExp(x, k VecVirtual, low Register) VecVirtual {
	half, y := v.reg(), v.reg()
	VMULPS(f32(0.5), k, half)
	if low != nil {
		l := v.reg()
		VMULPS(f32(0.5), low, l)
		low = l
	}
	e := v.exp(half, low)
	VMULPS(x, e, y)
	VMULPS(e, y, y)
	return y
}

// farBelow is y, but far() where x is below limit, which is rare.
func (v vec) farBelow(x VecVirtual, limit float64, y VecVirtual, far func() VecVirtual) VecVirtual {
	l := v.load(f32(limit))
	v.jumpIfAll(cmpGE, x, l, "near")
	VMOVUPS(v.pick(cmpLT, x, l, far(), y), y)
	Label("near")
	return y
}

// geluTanh is x*(1+tanh(u))/2 = x*sigmoid(2u), 2u = x*(c + d*x^2).
func (v vec) geluTanh(x VecVirtual) VecVirtual {
	k, low := v.geluTanhExponent(x)
	s := v.sigmoid(x, k, low)
	VMULPS(x, s, s)
	return v.farBelow(x, -9.9, s, func() VecVirtual { return v.timesExp(x, k, low) })
}

// geluTanhExponent is -|2u| in two parts of single precision. The error of a single one would appear |2u| times as
// large in e^-|2u|.
func (v vec) geluTanhExponent(x VecVirtual) (k, low VecVirtual) {
	const c, d = -2 * 0.7978845608028654, -2 * 0.7978845608028654 * 0.044715
	a := v.abs(x)
	VMINPS(a, v.load(f32(20)), a) // beyond 20, e^-|2u| is 0; NaN stays NaN
	square, squareLow, p := v.reg(), v.reg(), v.reg()
	VMULPS(a, a, square)
	VMOVUPS(square, squareLow)
	VFMSUB231PS(a, a, squareLow) // what rounding took from the square
	VMULPS(f32(d), square, p)
	rest := v.reg()
	VMOVUPS(p, rest)
	VFMSUB231PS(f32(d), square, rest)
	// p + c, the larger first, so that the difference is exact
	large, small, sum := v.load(f32(c)), v.load(f32(c)), v.reg()
	VMINPS(p, large, large)
	VMAXPS(p, small, small)
	VADDPS(small, large, sum)
	VSUBPS(large, sum, large)
	VSUBPS(large, small, small)
	VADDPS(small, rest, rest)
	VFMADD231PS(f32(d), squareLow, rest)
	VFMADD231PS(f32(d-float64(float32(d))), square, rest)
	VADDPS(f32(c-float64(float32(c))), rest, rest)
	k, low = v.reg(), v.reg()
	VMULPS(a, sum, k)
	VMOVUPS(k, low)
	VFMSUB231PS(a, sum, low)
	VFMADD231PS(a, rest, low)
	return k, low
}
