package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// genFunctions writes more elementwise functions than genMath, some of them with parameters.
func genFunctions(v vec) {
	unary(v, "exp2", v.power2)
	unary(v, "expm1", v.expm1)
	unary(v, "log2", v.log2)
	unary(v, "log1p", v.log1p)
	unary(v, "mish", v.mish)
	unary(v, "selu", func(x VecVirtual) VecVirtual {
		return v.elu(x, v.expm1(v.below(x)), f32(1.0507009873554805*1.6732632423543772), f32(1.0507009873554805))
	})
	unary(v, "hardswish", func(x VecVirtual) VecVirtual {
		s := v.load(f32(0.5))
		VFMADD231PS(f32(1./6), x, s)
		v.between(s, v.zero(), v.load(f32(1)))
		VMULPS(x, s, s)
		return s
	})
	unary(v, "square", func(x VecVirtual) VecVirtual {
		VMULPS(x, x, x)
		return x
	})
	unary(v, "reciprocal", func(x VecVirtual) VecVirtual {
		y := v.load(f32(1))
		VDIVPS(x, y, y)
		return y
	})
	unary(v, "sign", func(x VecVirtual) VecVirtual {
		y := v.load(f32(1))
		v.withSign(x, y)
		y = v.pick(cmpEQ, x, v.zero(), x, y)
		return v.pick(cmpUnordered, x, x, x, y)
	})
	withParams(v, "leaky_relu", 1, func(p ...VecVirtual) func(x VecVirtual) VecVirtual {
		return func(x VecVirtual) VecVirtual {
			y := v.reg()
			VMULPS(p[0], x, y)
			return v.pick(cmpGT, x, v.zero(), x, y)
		}
	})
	withParams(v, "elu", 1, func(p ...VecVirtual) func(x VecVirtual) VecVirtual {
		return func(x VecVirtual) VecVirtual { return v.elu(x, v.expm1(v.below(x)), p[0], nil) }
	})
	withParams(v, "celu", 1, func(p ...VecVirtual) func(x VecVirtual) VecVirtual {
		return func(x VecVirtual) VecVirtual {
			t := v.below(x)
			VDIVPS(p[0], t, t)
			return v.elu(x, v.expm1(t), p[0], nil)
		}
	})
	withParams(v, "hardsigmoid", 2, func(p ...VecVirtual) func(x VecVirtual) VecVirtual {
		return func(x VecVirtual) VecVirtual {
			VFMADD213PS(p[1], p[0], x)
			v.between(x, v.zero(), v.load(f32(1)))
			return x
		}
	})
	withParams(v, "clamp", 2, func(p ...VecVirtual) func(x VecVirtual) VecVirtual { // parameters: max, min
		return func(x VecVirtual) VecVirtual {
			v.between(x, p[1], p[0])
			return x
		}
	})
	withParams(v, "softplus", 2, func(p ...VecVirtual) func(x VecVirtual) VecVirtual { // parameters: beta, threshold
		inverse := v.load(f32(1))
		VDIVPS(p[0], inverse, inverse)
		return func(x VecVirtual) VecVirtual { return v.softplus(x, p[0], inverse, p[1]) }
	})
	for _, p := range []struct {
		name      string
		magnitude bool
		bits      uint32
		predicate uint8
	}{{"isnan", false, 0, cmpUnordered}, {"isinf", true, math.Float32bits(float32(math.Inf(1))), cmpEQ},
		{"isfinite", true, math.Float32bits(float32(math.Inf(1))), cmpLT}} {
		v.test(p.name, p.magnitude, p.bits, p.predicate)
	}
}

const cmpGT = 30 // greater than, quiet, false for NaN

// withParams writes a function with parameters. make emits what depends on the parameters only and returns the function
// of a vector.
func withParams(v vec, name string, count int, make func(p ...VecVirtual) func(x VecVirtual) VecVirtual) {
	routine := symbol(name) + v.name
	field, signature := "one", "func(dst, src *float32, blocks int, a float32)"
	if count == 2 {
		field, signature = "two", "func(dst, src *float32, blocks int, a, b float32)"
	}
	entries = append(entries, entry{"unary", v.name, name, "{" + field + ": " + routine + "}"})
	TEXT(routine, NOSPLIT, signature)
	Doc(routine + " is dst[i] = " + name + "(src[i]) for i < blocks*lanes; blocks > 0, dst may be src.")
	Pragma("noescape")
	dst := Load(Param("dst"), GP64())
	src := Load(Param("src"), GP64())
	blocks := Load(Param("blocks"), GP64())
	var p []VecVirtual
	for i := range count {
		p = append(p, v.broadcast([]string{"a", "b"}[i]))
	}
	f := make(p...)
	Label("loop")
	x := v.reg()
	VMOVUPS(Mem{Base: src}, x)
	VMOVUPS(f(x), Mem{Base: dst})
	ADDQ(Imm(uint64(v.bytes())), src)
	ADDQ(Imm(uint64(v.bytes())), dst)
	DECQ(blocks)
	JNE(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// between bounds x; NaN stays NaN. The upper bound wins.
func (v vec) between(x, lo, hi VecVirtual) {
	VMAXPS(x, lo, x) // min and max return the last source, x, if it is NaN
	VMINPS(x, hi, x)
}

// below is min(x, 0). NaN stays NaN.
func (v vec) below(x VecVirtual) VecVirtual {
	t := v.reg()
	VMINPS(x, v.zero(), t)
	return t
}

// elu is x, times scale if it is given, for x > 0, else e*alpha, where e is expm1(min(x, 0)).
func (v vec) elu(x, e VecVirtual, alpha, scale Op) VecVirtual {
	VMULPS(alpha, e, e)
	up := x
	if scale != nil {
		up = v.reg()
		VMULPS(scale, x, up)
	}
	return v.pick(cmpGT, x, v.zero(), up, e)
}

// reduceExp is x = n*ln(2) + r for x in [lo, hi]; NaN stays in r. shifted has n in its low bits.
func (v vec) reduceExp(x VecVirtual, lo, hi float64) (n, shifted, r VecVirtual) {
	const shift = 0x4b400000 // 1.5*2^23: adding it rounds to an integer
	c := v.reg()
	VMAXPS(x, v.load(f32(lo)), c)
	VMINPS(c, v.load(f32(hi)), c)
	shifted = v.load(bitsConst(shift))
	VFMADD231PS(f32(math.Log2E), c, shifted)
	n = v.reg()
	VSUBPS(bitsConst(shift), shifted, n)
	VFNMADD231PS(f32(ln2Hi), n, c)
	VFNMADD231PS(f32(math.Ln2-ln2Hi), n, c)
	return n, shifted, c
}

// expm1 is 2*(2^(n-1)*p + (2^(n-1) - 1/2)), p = e^r - 1 = r + r*r*q(r). Half of the power is a float for all n.
func (v vec) expm1(x VecVirtual) VecVirtual {
	_, shifted, r := v.reduceExp(x, -30, 89)
	q := v.horner(r, expPoly())
	r2 := v.reg()
	VMULPS(r, r, r2)
	VFMADD213PS(r, r2, q) // r2*q + r
	half, rest := v.reg(), v.reg()
	VPSUBD(bitsConst(0x4b400000-126), shifted, half)
	VPSLLD(Imm(23), half, half)
	VSUBPS(f32(0.5), half, rest)
	VFMADD213PS(rest, half, q)
	VADDPS(q, q, q)
	return q
}

// power2 is 2^x: 2^n * (1 + r*p(r)), x = n + r.
func (v vec) power2(x VecVirtual) VecVirtual {
	const shift = 0x4b400000
	c := v.reg()
	VMAXPS(x, v.load(f32(-151)), c)
	VMINPS(c, v.load(f32(129)), c)
	shifted := v.reg()
	VADDPS(bitsConst(shift), c, shifted)
	n := v.reg()
	VSUBPS(bitsConst(shift), shifted, n)
	VSUBPS(n, c, c) // exact
	y := v.horner(c, exp2m1Poly())
	VFMADD213PS(f32(1), c, y)
	v.scale(y, n, shifted)
	return y
}

// scale is y = y * 2^n for y in [1/2, 2) and n in [-151, 129]; NaN stays NaN. For AVX2, shifted has n in its low bits.
// An instruction whose result is denormal, or underflows to 0, takes over a hundred cycles. If that could happen, y *
// 2^(n+149) is converted to an integer instead: its bits are those of the denormal result, rounded once.
func (v vec) scale(y, n, shifted VecVirtual) {
	const least, up = -125, 149
	scales++ // labels must be unique in a routine
	normal, end := fmt.Sprint("normal", scales), fmt.Sprint("scaled", scales)
	if v.wide() {
		k := K()
		VCMPPS(Imm(cmpLT), f32(least), n, k)
		KORTESTW(k, k)
		JEQ(LabelRef(normal))
		VADDPS(f32(up), n, k, n)
		VSCALEFPS(n, y, y)
		VCVTPS2DQ(y, k, y)
		JMP(LabelRef(end))
		Label(normal)
		VSCALEFPS(n, y, y)
		Label(end)
		return
	}
	small, bits, any := v.reg(), v.reg(), GP32()
	VCMPPS(Imm(cmpLT), f32(least), n, small)
	// 2y * 2^(n-1), whose second factor is a normal number, or infinite for n = 129.
	VPADDD(bitsConst((126-0x4b400000)&0xffffffff), shifted, shifted)
	VADDPS(y, y, y)
	VMOVMSKPS(small, any)
	TESTL(any, any)
	JEQ(LabelRef(normal))
	VANDPS(bitsConst(up), small, bits)
	VPADDD(bits, shifted, shifted)
	VPSLLD(Imm(23), shifted, shifted)
	VMULPS(shifted, y, y)
	VCVTPS2DQ(y, bits)
	VBLENDVPS(small, bits, y, y)
	JMP(LabelRef(end))
	Label(normal)
	VPSLLD(Imm(23), shifted, shifted)
	VMULPS(shifted, y, y)
	Label(end)
}

// scales counts the uses of scale.
var scales int

// mish is x*tanh(ln(1+e^x)) = x*n/(n+2), n = t*(t+2), t = e^x. Beyond 20 the quotient is 1.
func (v vec) mish(x VecVirtual) VecVirtual {
	c := v.reg()
	VMINPS(x, v.load(f32(20)), c)
	e := v.exp(c, nil)
	n := v.reg()
	VADDPS(f32(2), e, n)
	VMULPS(e, n, n)
	VADDPS(f32(2), n, e)
	VDIVPS(e, n, n)
	VMULPS(x, n, n)
	return v.farBelow(x, -87, n, func() VecVirtual { return v.timesExp(x, x, nil) }) // there, n is 2*e^x
}

// minus is -x.
func (v vec) minus(x VecVirtual) VecVirtual {
	y := v.reg()
	v.xor(bitsConst(0x80000000), x, y)
	return y
}

// softplus is (max(t, 0) + ln(1+z))/beta, t = beta*x, z = e^-|t|, or x if t is above the threshold.
func (v vec) softplus(x, beta, inverse, threshold VecVirtual) VecVirtual {
	t, neg, low := v.reg(), v.reg(), v.reg()
	VMULPS(beta, x, t)
	VMOVUPS(t, low)
	// the exact rounding error of t; without it, the relative error of e^-|t| would be |t| times as large
	VFMSUB231PS(beta, x, low)
	v.or(bitsConst(0x80000000), t, neg)
	low = v.pick(cmpGT, neg, v.load(f32(-104)), low, v.zero())
	low = v.pick(cmpGT, t, v.zero(), v.minus(low), low)
	z := v.exp(neg, low)
	y := v.horner(z, log1pPoly())
	up := v.reg()
	VMAXPS(t, v.zero(), up)
	VFMADD213PS(up, z, y)
	VMULPS(inverse, y, y)
	return v.pick(cmpGT, t, threshold, x, y)
}

// test writes a predicate of floats: it stores a byte 1 or 0, the result of comparing x, or |x| if magnitude is set,
// with a constant.
func (v vec) test(name string, magnitude bool, bits uint32, predicate uint8) {
	routine := name + "Bytes" + v.name
	entries = append(entries, entry{"test", v.name, name, routine})
	TEXT(routine, NOSPLIT, "func(dst *uint8, src *float32, blocks int)")
	Doc(routine + " is dst = 1 where the predicate is true for src, else 0, over blocks*lanes elements; blocks > 0.")
	Pragma("noescape")
	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	n := Load(Param("blocks"), GP64())
	ones := XMM()
	VMOVUPS(bitsConst(0x01010101), ones)
	with := v.load(bitsConst(bits))
	Label("loop")
	x := v.reg()
	VMOVUPS(Mem{Base: src}, x)
	if magnitude {
		v.and(bitsConst(0x7fffffff), x, x)
	}
	v.storeTruth(predicate, x, with, ones, dst)
	ADDQ(Imm(uint64(v.bytes())), src)
	ADDQ(Imm(uint64(v.lanes)), dst)
	DECQ(n)
	JNE(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// storeTruth stores a byte for each lane: 1 if x PREDICATE y is true, else 0.
func (v vec) storeTruth(predicate uint8, x VecVirtual, y, ones Op, dst Register) {
	bytes := XMM()
	if v.wide() {
		k := K()
		VCMPPS(Imm(uint64(predicate)), y, x, k)
		VPMOVM2B(k, bytes)
		VPAND(ones, bytes, bytes)
		VMOVDQU(bytes, Mem{Base: dst})
		return
	}
	m, high := YMM(), XMM()
	VCMPPS(Imm(uint64(predicate)), y, x, m)
	VEXTRACTI128(Imm(1), m, high)
	VPACKSSDW(high, m.AsX(), bytes)
	VPACKSSWB(bytes, bytes, bytes)
	VPAND(ones, bytes, bytes)
	VMOVQ(bytes, Mem{Base: dst})
}
