package main

import "math"

// neonFunctions writes the functions of genFunctions, by the same formulas and polynomials.
func neonFunctions(file *neonFile) {
	neonUnary(file, "exp2", (*neonFunc).power2)
	neonUnary(file, "expm1", (*neonFunc).expm1)
	neonUnary(file, "log2", (*neonFunc).log2)
	neonUnary(file, "log1p", (*neonFunc).log1p)
	neonUnary(file, "mish", (*neonFunc).mish)
	neonUnary(file, "selu", func(f *neonFunc, x vec8) vec8 {
		e := f.mul(f.expm1(f.below(x)), f.float(1.0507009873554805*1.6732632423543772))
		return f.pick(f.less(f.zero(), x), f.mul(x, f.float(1.0507009873554805)), e)
	})
	neonUnary(file, "hardswish", func(f *neonFunc, x vec8) vec8 {
		s := f.ownFloat(0.5)
		f.fma(s, x, f.float(1./6))
		return f.mul(x, f.between(s, f.zero(), f.float(1)))
	})
	neonUnary(file, "square", func(f *neonFunc, x vec8) vec8 { return f.mul(x, x) })
	neonUnary(file, "reciprocal", func(f *neonFunc, x vec8) vec8 { return f.div(f.float(1), x) })
	neonUnary(file, "sign", func(f *neonFunc, x vec8) vec8 {
		y := f.withSign(x, f.ownFloat(1))
		y = f.pick(f.op2("fcmeq", x, f.zero()), x, y)
		return f.pick(f.op2("fcmeq", x, x), y, x) // NaN is not equal to itself
	})
	neonWithParams(file, "leaky_relu", 1, func(f *neonFunc, p []vreg) func(x vec8) vec8 {
		return func(x vec8) vec8 { return f.pick(f.less(f.zero(), x), x, f.mul(x, p[0])) }
	})
	neonWithParams(file, "elu", 1, func(f *neonFunc, p []vreg) func(x vec8) vec8 {
		return func(x vec8) vec8 {
			return f.pick(f.less(f.zero(), x), x, f.mul(f.expm1(f.below(x)), p[0]))
		}
	})
	neonWithParams(file, "celu", 1, func(f *neonFunc, p []vreg) func(x vec8) vec8 {
		return func(x vec8) vec8 {
			return f.pick(f.less(f.zero(), x), x, f.mul(f.expm1(f.div(f.below(x), p[0])), p[0]))
		}
	})
	neonWithParams(file, "hardsigmoid", 2, func(f *neonFunc, p []vreg) func(x vec8) vec8 {
		return func(x vec8) vec8 {
			y := f.op2("orr", p[1], p[1])
			f.fma(y, x, p[0])
			return f.between(y, f.zero(), f.float(1))
		}
	})
	neonWithParams(file, "clamp", 2, func(f *neonFunc, p []vreg) func(x vec8) vec8 { // parameters: max, min
		return func(x vec8) vec8 { return f.between(x, p[1], p[0]) }
	})
	neonWithParams(file, "softplus", 2, func(f *neonFunc, p []vreg) func(x vec8) vec8 { // parameters: beta, threshold
		inverse := f.reg()
		f.into("fdiv", inverse, f.float(1), p[0])
		return func(x vec8) vec8 { return f.softplus(x, p[0], inverse, p[1]) }
	})
	inf := math.Float32bits(float32(math.Inf(1)))
	for _, p := range []struct {
		name, op        string
		magnitude, swap bool
		with            uint32
		negate          bool
	}{{"isnan", "fcmeq", false, false, 0, true}, {"isinf", "fcmeq", true, false, inf, false},
		{"isfinite", "fcmgt", true, true, inf, false}} {
		f := file.add(p.name+"Bytes", "dst *uint8, src *float32, blocks int", "",
			"is dst = 1 where src has the property, else 0, over blocks*lanes elements; blocks > 0.")
		file.list("test", p.name, "")
		dst, src, n := f.param("dst"), f.param("src"), f.param("blocks")
		f.useConstants()
		ones := f.bits(0x01010101)
		f.label("loop")
		x := f.loadPair(src, 0)
		var y operand = x
		if p.with != 0 {
			x, y = f.abs(x), f.bits(p.with)
		}
		m := f.pair()
		for i := range m {
			a, b := x.half(i), y.half(i)
			if p.swap {
				a, b = b, a
			}
			f.into(p.op, m[i], a, b)
		}
		f.storeTruth(m, ones, p.negate, dst)
		f.ins("ADD $8, %v, %v", dst, dst)
		f.ins("ADD $32, %v, %v", src, src)
		f.count(n, "loop")
		f.ret()
	}
}

// neonWithParams writes a function with parameters. do emits what depends on the parameters only and returns the
// function of a vector.
func neonWithParams(file *neonFile, name string, count int, do func(f *neonFunc, p []vreg) func(x vec8) vec8) {
	signature, field := "dst *float32, src *float32, blocks int, a float32", "one"
	if count == 2 {
		signature, field = signature+", b float32", "two"
	}
	f := file.add(symbol(name), signature, "",
		"is dst[i] = "+name+"(src[i]) for i < blocks*lanes; blocks > 0, dst may be src.")
	file.list("unary", name, field)
	dst, src, blocks := f.param("dst"), f.param("src"), f.param("blocks")
	f.useConstants()
	var p []vreg
	for _, name := range []string{"a", "b"}[:count] {
		p = append(p, f.scalar(name))
	}
	of := do(f, p)
	f.label("loop")
	y := of(f.loadPair(src, 0))
	f.store(dst, 0, y[:]...)
	f.ins("ADD $32, %v, %v", src, src)
	f.ins("ADD $32, %v, %v", dst, dst)
	f.count(blocks, "loop")
	f.ret()
}

// between bounds x; NaN stays NaN. The upper bound wins.
func (f *neonFunc) between(x vec8, lo, hi operand) vec8 {
	return f.op2("fmin", f.op2("fmax", x, lo), hi)
}

// below is min(x, 0). NaN stays NaN.
func (f *neonFunc) below(x vec8) vec8 { return f.op2("fmin", x, f.zero()) }

const shiftBits = 0x4b400000 // 1.5*2^23: adding it rounds to an integer

// expm1 is 2*(2^(n-1)*p + (2^(n-1) - 1/2)), p = e^r - 1 = r + r*r*q(r). Half of the power is a float for all n.
func (f *neonFunc) expm1(x vec8) vec8 {
	r := f.between(x, f.float(-30), f.float(89))
	shifted := f.ownBits(shiftBits)
	f.fma(shifted, r, f.float(math.Log2E))
	n := f.sub(shifted, f.bits(shiftBits))
	const ln2Hi = 0.693145751953125 // 15 bits: n*ln2Hi is exact
	f.fms(r, n, f.float(ln2Hi))
	f.fms(r, n, f.float(math.Ln2-ln2Hi))
	q := f.horner(r, expPoly())
	f.fma(r, f.mul(r, r), q)
	half := f.shift("shl", f.op2("sub", shifted, f.bits(shiftBits-126)), 23)
	y := f.sub(half, f.float(0.5))
	f.fma(y, half, r)
	return f.add(y, y)
}

// power2 is 2^x: 2^n * (1 + r*p(r)), x = n + r.
func (f *neonFunc) power2(x vec8) vec8 {
	r := f.between(x, f.float(-151), f.float(129))
	shifter := f.bits(shiftBits)
	shifted := f.add(r, shifter)
	r = f.sub(r, f.sub(shifted, shifter)) // exact
	y := f.ownFloat(1)
	f.fma(y, r, f.horner(r, exp2m1Poly()))
	// 2^n as two factors, which are normal numbers for n in [-152, 130].
	i := f.op2("sub", shifted, shifter)
	half := f.shift("sshr", i, 1)
	i = f.op2("sub", i, half)
	bias := f.bits(127)
	for _, e := range []vec8{half, i} {
		y = f.mul(y, f.shift("shl", f.op2("add", e, bias), 23))
	}
	return y
}

// split is x = 2^e * (1+d), 1+d in [sqrt(1/2), sqrt(2)), for x above 0; e is returned as integer and as float. It
// handles denormals only if denormals is set.
func (f *neonFunc) split(x vec8, denormals bool) (integer, e, d vec8) {
	m := f.op2("orr", x, x)
	if denormals {
		m = f.pick(f.less(x, f.float(0x1p-126)), f.mul(x, f.float(0x1p23)), x)
	}
	integer = f.shift("sshr", f.op2("sub", m, f.bits(math.Float32bits(math.Sqrt2/2))), 23)
	m = f.op2("sub", m, f.shift("shl", integer, 23))
	e = f.lanewise(integer, 0x4e21d800, "scvtf")
	if denormals {
		e = f.add(e, f.op2("and", f.less(x, f.float(0x1p-126)), f.float(-23)))
	}
	return integer, e, f.sub(m, f.float(1)) // exact
}

// logEnds returns log x for all x, given y = log x for positive finite x.
func (f *neonFunc) logEnds(x, y vec8) vec8 {
	y = f.pick(f.less(x, f.float(math.Inf(1))), y, x) // Inf and NaN
	zero := f.zero()
	y = f.pick(f.less(x, zero), f.float(math.NaN()), y)
	return f.pick(f.op2("fcmeq", x, zero), f.float(math.Inf(-1)), y)
}

// log2 is e + d/ln(2) + d*d*p(d).
func (f *neonFunc) log2(x vec8) vec8 {
	_, e, d := f.split(x, true)
	y := f.ownFloat(math.Log2E - float64(float32(math.Log2E))) // what rounding 1/ln(2) to a float loses
	f.fma(y, d, f.horner(d, log2Poly()))
	y = f.mul(y, d)
	f.fma(y, d, f.float(math.Log2E))
	return f.logEnds(x, f.add(y, e))
}

// log1p is log of u = 1+x, with the rounding error of u in d.
func (f *neonFunc) log1p(x vec8) vec8 {
	one := f.float(1)
	u := f.add(x, one)
	c := f.sub(x, f.sub(u, one)) // u + c is 1+x
	integer, e, d := f.split(u, false)
	// c * 2^-e; for large e, c is 0 or does not matter.
	power := f.shift("shl", f.op2("sub", f.bits(127), f.op2("smin", integer, f.bits(126))), 23)
	f.fma(d, c, power)
	y := f.ownFloat(-0.5)
	f.fma(y, d, f.horner(d, logPoly()))
	sum := f.mul(e, f.float(math.Ln2-float64(float32(math.Ln2))))
	f.fma(sum, f.mul(d, d), y)
	sum = f.add(sum, d)
	f.fma(sum, e, f.float(math.Ln2))
	return f.logEnds(u, sum)
}

// mish is x*tanh(ln(1+e^x)) = x*n/(n+2), n = t*(t+2), t = e^x. Beyond 20 the quotient is 1.
func (f *neonFunc) mish(x vec8) vec8 {
	y, power := f.expFactors(f.op2("fmin", x, f.float(20)), nil)
	two := f.float(2)
	e := f.mul(y, power)
	up := f.add(e, two)
	n := f.mul(e, up)
	d := f.add(n, two)
	// For a negative x, e may be denormal and have few digits, so x is multiplied by one of its factors first.
	negative := f.less(x, f.zero())
	product := f.mul(f.op2("fmax", x, f.float(-least)), y)
	again := func() vec8 { return f.op2("orr", negative, negative) }
	power = f.pick(again(), power, f.float(1))
	q := f.div(f.pick(again(), up, n), d)
	return f.nanIfInfinite(x, negative, f.mul(f.mul(f.pick(again(), product, x), q), power))
}

// softplus is (max(t, 0) + ln(1+z))/beta, t = beta*x, z = e^-|t|, or x if t is above the threshold.
func (f *neonFunc) softplus(x vec8, beta, inverse, threshold vreg) vec8 {
	t := f.mul(x, beta)
	low := f.neg(t)
	// the exact rounding error of t; without it, the relative error of e^-|t| would be |t| times as large
	f.fma(low, x, beta)
	neg := f.op2("orr", t, f.bits(signBit))
	low = f.op2("and", f.less(f.float(-104), neg), low)
	z := f.exp(neg, f.pick(f.less(f.zero(), t), f.neg(low), low))
	y := f.op2("fmax", t, f.zero())
	f.fma(y, z, f.horner(z, log1pPoly()))
	return f.pick(f.less(threshold, t), x, f.mul(y, inverse))
}
