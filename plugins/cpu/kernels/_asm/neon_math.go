package main

import "math"

// neonMath writes the functions of genMath. Most formulas are the same, but gelu, tanh, erf and the logarithms use no
// tables of polynomials.
func neonMath(file *neonFile) {
	neonUnary(file, "exp", func(f *neonFunc, x vec8) vec8 { return f.exp(x, nil) })
	neonUnary(file, "sigmoid", (*neonFunc).sigmoid)
	neonUnary(file, "silu", func(f *neonFunc, x vec8) vec8 {
		return f.timesSigmoid(x, f.op2("orr", x, f.bits(signBit)), nil)
	})
	neonUnary(file, "tanh", (*neonFunc).tanh)
	neonUnary(file, "gelu", (*neonFunc).gelu)
	neonUnary(file, "gelu_tanh", (*neonFunc).geluTanh)
	neonUnary(file, "erf", (*neonFunc).erf)
	neonUnary(file, "relu", func(f *neonFunc, x vec8) vec8 { return f.op2("fmax", x, f.zero()) }) // NaN stays NaN
	neonTrig(file)
	neonPlain(file)
	neonFunctions(file)
}

// neonPlain writes the functions that take an instruction or two.
func neonPlain(file *neonFile) {
	neonUnary(file, "neg", (*neonFunc).neg)
	neonUnary(file, "abs", (*neonFunc).abs)
	neonUnary(file, "sqrt", (*neonFunc).sqrt)
	neonUnary(file, "rsqrt", func(f *neonFunc, x vec8) vec8 { return f.div(f.float(1), f.sqrt(x)) })
	neonUnary(file, "round", (*neonFunc).nearest)
	neonUnary(file, "floor", func(f *neonFunc, x vec8) vec8 { return f.lanewise(x, 0x4e219800, "frintm") })
	neonUnary(file, "ceil", func(f *neonFunc, x vec8) vec8 { return f.lanewise(x, 0x4ea18800, "frintp") })
}

// neonUnary writes a function without parameters and lists it.
func neonUnary(file *neonFile, name string, do func(f *neonFunc, x vec8) vec8) {
	neonMap(file, name, do)
	file.list("unary", name, "whole")
}

// neonMap writes a routine of one operand.
func neonMap(file *neonFile, name string, do func(f *neonFunc, x vec8) vec8) {
	f := file.add(symbol(name), "dst *float32, src *float32, blocks int", "",
		"is dst[i] = "+name+"(src[i]) for i < blocks*lanes; blocks > 0, dst may be src.")
	dst, src, blocks := f.param("dst"), f.param("src"), f.param("blocks")
	f.useConstants()
	f.label("loop")
	y := do(f, f.loadPair(src, 0))
	f.store(dst, 0, y[:]...)
	f.ins("ADD $32, %v, %v", src, src)
	f.ins("ADD $32, %v, %v", dst, dst)
	f.count(blocks, "loop")
	f.ret()
}

const signBit = 0x80000000

// exp is e^x or, if low is given, e^(x+low), where low is far below an ulp of x: so an argument can have more than
// single precision. NaN stays NaN, overflow is +Inf, underflow is gradual.
func (f *neonFunc) exp(x vec8, low operand) vec8 { return f.mul(f.expFactors(x, low)) }

// least: e^-least is 0 in single precision, even times least.
const least = 130

// expFactors returns two normal numbers, or infinities, whose product is e^x.
func (f *neonFunc) expFactors(x vec8, low operand) (vec8, vec8) {
	// x*log2(e) = n + rest. Adding 1.5*2^23 rounds to an integer.
	const shift = 0x4b400000
	r := f.op2("fmax", x, f.float(-least)) // keeps NaN
	r = f.op2("fmin", r, f.float(89))
	shifted := f.ownBits(shift)
	f.fma(shifted, r, f.float(math.Log2E))
	shifter := f.bits(shift)
	n := f.sub(shifted, shifter)
	const ln2Hi = 0.693145751953125 // 15 bits: n*ln2Hi is exact
	f.fms(r, n, f.float(ln2Hi))
	if low != nil {
		r = f.add(r, low)
	}
	f.fms(r, n, f.float(math.Ln2-ln2Hi))
	q := f.horner(r, expPoly())
	f.fma(r, f.mul(r, r), q)
	y := f.add(r, f.float(1))
	// 2^n as two factors, which are normal numbers for n in [-188, 129].
	i := f.op2("sub", shifted, shifter)
	half := f.shift("sshr", i, 1)
	i = f.op2("sub", i, half)
	bias := f.bits(127)
	power := func(e vec8) vec8 { return f.shift("shl", f.op2("add", e, bias), 23) }
	return f.mul(y, power(half)), power(i)
}

// timesSigmoid is x/(1+e^-|k|), times e^-|k| if x is negative, from neg = -|k| and low, see exp. e^-|k| may be denormal
// and have few digits, so x is multiplied by one of its factors first.
func (f *neonFunc) timesSigmoid(x, neg vec8, low operand) vec8 {
	y, power := f.expFactors(neg, low)
	d := f.add(f.mul(y, power), f.float(1))
	negative := f.less(x, f.zero())
	product := f.mul(f.op2("fmax", x, f.float(-least)), y)
	power = f.pick(f.op2("orr", negative, negative), power, f.float(1))
	y = f.mul(f.div(f.pick(f.op2("orr", negative, negative), product, x), d), power)
	return f.nanIfInfinite(x, negative, y)
}

// sigmoid is 1/(1+e^-x), computed from exp(-|x|) so that neither tail loses digits.
func (f *neonFunc) sigmoid(x vec8) vec8 {
	e := f.exp(f.op2("orr", x, f.bits(signBit)), nil)
	one := f.float(1)
	d := f.add(e, one)
	return f.div(f.pick(f.less(x, f.zero()), e, one), d)
}

// tanh is x + x^3 p(x^2) near zero, elsewhere 1 - 2/(e^(2|x|) + 1) with the sign of x.
func (f *neonFunc) tanh(x vec8) vec8 {
	a := f.abs(x)
	e := f.add(f.exp(f.add(a, a), nil), f.float(1))
	far := f.withSign(x, f.sub(f.float(1), f.div(f.float(2), e)))
	z := f.mul(x, x)
	p := f.mul(z, f.horner(z, tanhPoly()))
	m := f.less(a, f.float(tanhSplit))
	f.fma(x, x, p) // x + x*p
	return f.pick(m, x, far)
}

// withSign sets the sign of y to that of x.
func (f *neonFunc) withSign(x, y vec8) vec8 { return f.pick(f.ownBits(signBit), x, y) }

// nanIfInfinite is y, but NaN for x = -Inf, as -Inf * 0 is.
func (f *neonFunc) nanIfInfinite(x, negative, y vec8) vec8 {
	return f.sub(y, f.op2("and", f.sub(x, x), negative))
}

// tail is Phi(-a) for a >= 0, the normal distribution's tail, as two factors: exp(-a*a/2) * t * p(1-t), t = 2c/(a+c).
// For large a, the factor t follows most of the decay beside exp, so that p varies little and the rounding of 1-t
// matters little.
func (f *neonFunc) tail(a vec8) (y, power vec8) {
	c := f.op2("fmin", a, f.float(30))
	// a*a/2 in two parts: if it were rounded, the result could be off by a factor of e^(100 ulp).
	h := f.mul(c, f.float(-0.5))
	s := f.mul(c, h)
	low := f.neg(s)
	f.fma(low, c, h) // c*h - s, the exact rounding error of s
	e, power := f.expFactors(s, low)
	t := f.div(f.float(2*phiPivot), f.add(c, f.float(phiPivot)))
	p := f.horner(f.sub(f.float(1), t), phiPoly())
	return f.mul(e, f.mul(t, p)), power
}

// gelu is x*Phi(x). Phi may be denormal and have few digits, so a negative x is multiplied by one of its factors first.
func (f *neonFunc) gelu(x vec8) vec8 {
	a := f.abs(x)
	t, power := f.tail(a)
	up := f.mul(x, f.sub(f.float(1), f.mul(t, power)))
	down := f.mul(f.mul(f.op2("fmin", a, f.float(20)), t), power) // 0 from 15 on
	return f.pick(f.less(x, f.zero()), f.neg(f.add(down, f.sub(x, x))), up)
}

// geluTanh is x*(1+tanh(u))/2 = x*sigmoid(2u), 2u = x*(c + d*x^2). -|2u| is computed in two parts of single precision,
// because the error of a single one would appear |2u| times as large in e^-|2u|.
func (f *neonFunc) geluTanh(x vec8) vec8 {
	const c, d = -2 * 0.7978845608028654, -2 * 0.7978845608028654 * 0.044715
	a := f.op2("fmin", f.abs(x), f.float(20)) // beyond 20, e^-|2u| is 0; NaN stays NaN
	// lost is what rounding took from y = a*b.
	lost := func(y vec8, a, b operand) vec8 {
		e := f.neg(y)
		f.fma(e, a, b)
		return e
	}
	square := f.mul(a, a)
	squareLow := lost(square, a, a)
	p := f.mul(square, f.float(d))
	rest := lost(p, square, f.float(d))
	// p + c, the larger first, so that the difference is exact
	large, small := f.op2("fmin", p, f.float(c)), f.op2("fmax", p, f.float(c))
	sum := f.add(large, small)
	rest = f.add(rest, f.sub(small, f.sub(sum, large)))
	f.fma(rest, squareLow, f.float(d))
	f.fma(rest, square, f.float(d-float64(float32(d))))
	rest = f.add(rest, f.float(c-float64(float32(c))))
	k := f.mul(a, sum)
	low := lost(k, a, sum)
	f.fma(low, a, rest)
	return f.timesSigmoid(x, k, low)
}

// erf is x + x p(x*x) for |x| up to 1, beyond that 1 - 2 Phi(-sqrt(2)|x|) with the sign of x.
func (f *neonFunc) erf(x vec8) vec8 {
	a := f.abs(x)
	t := f.mul(f.tail(f.mul(a, f.float(math.Sqrt2))))
	far := f.ownFloat(1)
	f.fms(far, t, f.float(2))
	far = f.withSign(x, far)
	f.fma(x, x, f.horner(f.mul(x, x), erfPoly()))
	return f.pick(f.less(a, f.float(1)), x, far)
}
