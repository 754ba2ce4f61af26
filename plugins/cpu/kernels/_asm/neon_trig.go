package main

import "math"

// neonTrig writes the functions of genTrig, by the same formulas.
func neonTrig(file *neonFile) {
	neonTurning(file, "sin", func(f *neonFunc, x vec8) vec8 {
		s, c, q := f.sinCos(f.abs(x))
		return f.flip(f.op2("eor", f.shift("shl", q, 30), x), f.oddPick(q, c, s))
	})
	neonTurning(file, "cos", func(f *neonFunc, x vec8) vec8 {
		s, c, q := f.sinCos(f.abs(x))
		quadrant := f.op2("add", q, f.bits(1)) // cos(r + q*pi/2) is negative for q = 1 and 2
		return f.flip(f.shift("shl", quadrant, 30), f.oddPick(q, s, c))
	})
	neonTurning(file, "tan", func(f *neonFunc, x vec8) vec8 { return f.flip(x, f.tan(f.abs(x))) })
	neonUnary(file, "atan", (*neonFunc).atan)
	neonUnary(file, "log", (*neonFunc).log)
}

// neonTurning writes a function of angles that stops before a vector with an angle too large for sinCos.
func neonTurning(file *neonFile, name string, do func(f *neonFunc, x vec8) vec8) {
	f := file.add(symbol(name), "dst *float32, src *float32, blocks int", "int",
		"is dst[i] = "+name+"(src[i]) for i < blocks*lanes; blocks > 0, dst may be src. It stops before a vector\n"+
			"// with an element of magnitude 2^17 or more, and returns how many vectors are left.")
	file.list("unary", name, "angles")
	dst, src, blocks, any := f.param("dst"), f.param("src"), f.param("blocks"), f.gpr()
	f.useConstants()
	f.label("loop")
	x := f.loadPair(src, 0)
	large := f.op2("fcmge", f.abs(x), f.float(angleLimit))
	f.into("orr", large[0], large[0], large[1])
	f.into("umaxp", large[0], large[0], large[0])
	f.ins("FMOVD F%v, %v", large[0], any)
	f.ins("CBNZ %v, end", any)
	y := do(f, x)
	f.store(dst, 0, y[:]...)
	f.ins("ADD $32, %v, %v", src, src)
	f.ins("ADD $32, %v, %v", dst, dst)
	f.count(blocks, "loop")
	f.label("end")
	f.ins("MOVD %v, %v", blocks, f.place("ret"))
	f.ret()
}

// reduce is r = a - q*pi/2 for a >= 0, a < angleLimit: |r| is at most angleMax, and q an integer with the low bits of
// q. If exact is set, low is the rounding error of r. It overwrites a.
func (f *neonFunc) reduce(a vec8, exact bool) (r, low, q vec8) {
	const shift = 0x4b400000 // 1.5*2^23: adding it rounds to an integer
	q = f.ownBits(shift)
	f.fma(q, a, f.float(2/math.Pi))
	n := f.sub(q, f.bits(shift))
	// The first difference is exact: both sides are multiples of 2^-24, and it is below 1. If a is close to a multiple
	// of pi/2, only the last operation rounds. What pi/2 has beyond its third part is below 2^-70.
	part := halfPi()
	f.fms(a, n, f.float(part[0]))
	second := f.float(part[1])
	if !exact {
		f.fms(a, n, second)
		f.fms(a, n, f.float(part[2]))
		return a, low, q
	}
	p := f.mul(n, second)
	e := f.neg(p)
	f.fma(e, n, second) // the exact product is p + e
	r = f.sub(a, p)
	back := f.sub(r, a) // the part of -p that is in r
	p = f.add(p, back)
	low = f.sub(f.sub(a, f.sub(r, back)), p) // r + low is a - p
	low = f.sub(low, e)
	f.fms(low, n, f.float(part[2]))
	return r, low, q
}

// sinCos returns the sine and the cosine of the reduced angle, and its quadrant.
func (f *neonFunc) sinCos(a vec8) (s, c, q vec8) {
	r, _, q := f.reduce(a, false)
	z := f.mul(r, r)
	c = f.ownFloat(1)
	f.fma(c, z, f.horner(z, cosPoly()))
	p := f.horner(z, sinPoly())
	f.fma(r, f.mul(r, z), p) // r + r*z*p
	return r, c, q
}

// tan is t = r + r^3 p(r^2), or -1/t in odd quadrants.
func (f *neonFunc) tan(a vec8) vec8 {
	r, low, q := f.reduce(a, true)
	z := f.mul(r, r)
	p := f.horner(z, tanPoly())
	f.fma(low, f.mul(r, z), p)
	r = f.add(r, low)
	return f.div(f.oddPick(q, f.float(-1), r), f.oddPick(q, r, f.float(1)))
}

// oddPick returns odd in the lanes where q is odd, even elsewhere.
func (f *neonFunc) oddPick(q vec8, odd, even operand) vec8 {
	return f.pick(f.op2("cmtst", q, f.bits(1)), odd, even)
}

// flip negates y where s is negative.
func (f *neonFunc) flip(s, y vec8) vec8 { return f.op2("eor", y, f.op2("and", s, f.bits(signBit))) }

// atan is t + t^3 p(t^2) with the sign of x: t is |x| up to 1; beyond, t is -1/|x| and pi/2 is added.
func (f *neonFunc) atan(x vec8) vec8 {
	a := f.abs(x)
	one := f.float(1)
	above := func() vec8 { return f.less(one, a) }
	t := f.div(f.pick(above(), f.float(-1), a), f.pick(above(), a, one))
	z := f.mul(t, t)
	p := f.horner(z, atanPoly())
	const high = 0x1.921fb6p+0
	low := f.op2("and", above(), f.float(math.Pi/2-high))
	f.fma(low, f.mul(t, z), p)
	t = f.add(t, low)
	return f.withSign(x, f.add(t, f.op2("and", above(), f.float(high))))
}

// log is e*ln(2) + log(1+f) for x = 2^e * (1+f), 1+f in [sqrt(1/2), sqrt(2)).
func (f *neonFunc) log(x vec8) vec8 {
	least := f.float(0x1p-126)
	m := f.pick(f.less(x, least), f.mul(x, f.float(0x1p23)), x) // denormals, made normal
	shift := f.op2("and", f.less(x, least), f.float(-23))
	power := f.shift("sshr", f.op2("sub", m, f.bits(math.Float32bits(math.Sqrt2/2))), 23)
	m = f.op2("sub", m, f.shift("shl", power, 23))
	e := f.add(f.lanewise(power, 0x4e21d800, "scvtf"), shift)
	d := f.sub(m, f.float(1)) // exact
	y := f.ownFloat(-0.5)
	f.fma(y, d, f.horner(d, logPoly()))
	sum := f.mul(e, f.float(math.Ln2-float64(float32(math.Ln2))))
	f.fma(sum, f.mul(d, d), y)
	sum = f.add(sum, d)
	f.fma(sum, e, f.float(math.Ln2))
	sum = f.pick(f.less(x, f.float(math.Inf(1))), sum, x) // Inf and NaN
	zero := f.zero()
	sum = f.pick(f.less(x, zero), f.float(math.NaN()), sum)
	return f.pick(f.op2("fcmeq", x, zero), f.float(math.Inf(-1)), sum)
}
