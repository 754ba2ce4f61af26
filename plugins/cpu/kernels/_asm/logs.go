package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Logarithms to any base. With x = 2^e * m, m in about [0.73, 1.45), and m*r = 1+z, where r is from a table of eight so
// that |z| < 0.1:
//
//	log x = e*log 2 + log 1/r + log(1+z)
//
// For m near 1, r is 1 and the second term 0, so that nothing cancels. The other r are floats whose logarithm is a
// multiple of 2^-16, up to an error of 2^-32. If log 2 is split in two parts as well, e*log 2 + log 1/r then has no
// rounding error.

// The bins of m are the eighths of binScale*m in [1, 2). The bin around 1 goes from 0.969 to 1.09. It ends at 0.969,
// where the logarithm is
// -1/32, because beyond that an ulp of the logarithm is at least one of z.
const binScale = 0x1.083p+0

// binStart returns twice the least m below 1: the least float of the fifth bin.
func binStart() float32 {
	const scale float32 = binScale
	m := float32(1.5 / binScale)
	for m*scale >= 1.5 {
		m = math.Nextafter32(m, 0)
	}
	for m*scale < 1.5 {
		m = math.Nextafter32(m, 2)
	}
	return m
}

// logTable holds r and log 1/r, a multiple of 2^-16, for each bin.
type logTable struct {
	r, log   [8]float64
	low, top float64 // bounds of z
}

func newLogTable(log func(float64) float64) (t logTable) {
	t.r[0], t.low, t.top = 1, 1/binScale-1, 1.125/binScale-1
	for j := 1; j < 8; j++ {
		lo, hi := (1+float64(j)/8)/binScale, (1+float64(j+1)/8)/binScale
		if j >= 4 {
			lo, hi = lo/2, hi/2
		}
		center := 0.55*lo + 0.45*hi // closer to 1, where an ulp is smaller
		if j >= 4 {
			center = 0.45*lo + 0.55*hi
		}
		middle := math.Round(log(center) * 0x1p16)
		least := math.Inf(1)
		for k := middle - 60; k <= middle+60; k++ {
			r := float64(float32(math.Exp(-k * 0x1p-16 / log(math.E))))
			if d := math.Abs(log(r) + k*0x1p-16); d < least {
				least, t.r[j], t.log[j] = d, r, k*0x1p-16
			}
		}
		t.low, t.top = min(t.low, lo*t.r[j]-1), max(t.top, hi*t.r[j]-1)
	}
	return t
}

// reduceLog returns the parts of log x: e, log 1/r and z. ends corrects the result y for x that are not positive normal
// numbers.
func (v vec) reduceLog(x VecVirtual, t logTable) (e, log, z VecVirtual, ends func(y VecVirtual)) {
	e = v.reg()
	m, bin := v.reg(), v.reg()
	if v.wide() {
		// These instructions handle denormals and special values: -0 counts as 0, e gives the logarithms of 0 and
		// infinity, and m is NaN for other negative numbers.
		VGETEXPPS(x, e)
		VGETMANTPS(Imm(0x0c), x, m) // of [1, 2)
		high := K()
		VCMPPS(Imm(cmpGE), f32(float64(binStart())), m, high)
		VADDPS(f32(1), e, high, e)
		VMULPS(f32(binScale), m, bin)
		VPSRLD(Imm(20), bin, bin)
		var r, logs [16]float64 // 1.0 begins with the bits 0x3f8, so the first bin has index 8
		for j := range 9 {      // up to 2*binScale
			r[(8+j)%16], logs[(8+j)%16] = t.r[j%8], t.log[j%8]
			if j >= 4 { // of m/2
				r[(8+j)%16] /= 2
			}
		}
		z = v.lookUp(r, bin)
		VFMSUB213PS(f32(1), m, z)
		return e, v.lookUp(logs, bin), z, func(VecVirtual) {}
	}
	shift, valid, usual := v.zero(), v.reg(), GP32()
	VMOVUPS(x, m)
	VPADDD(bitsConst(0x7f800000), x, valid) // from 2^-126 to the largest float this is below 0xff000000
	VPCMPGTD(valid, v.load(bitsConst(0xff000000)), valid)
	VMOVMSKPS(valid, usual)
	CMPL(usual, U32(0xff))
	JEQ(LabelRef("normal"))
	least := v.load(f32(0x1p-126))
	scaled := v.reg()
	VMULPS(f32(0x1p23), x, scaled)
	VMOVUPS(v.pick(cmpLT, x, least, scaled, x), m)
	VMOVUPS(v.pick(cmpLT, x, least, v.load(f32(-23)), v.zero()), shift)
	Label("normal")
	integer, power := v.reg(), v.reg()
	VPSUBD(f32(float64(binStart()/2)), m, integer)
	VPSRAD(Imm(23), integer, integer)
	VPSLLD(Imm(23), integer, power)
	VPSUBD(power, m, m)
	VCVTDQ2PS(integer, e)
	VADDPS(shift, e, e)
	VMULPS(f32(binScale), m, bin)
	VPSRLD(Imm(20), bin, bin)
	z = v.lookUp(repeated(t.r), bin)
	VFMSUB213PS(f32(1), m, z)
	return e, v.lookUp(repeated(t.log), bin), z, func(y VecVirtual) {
		CMPL(usual, U32(0xff))
		JEQ(LabelRef("done"))
		VMOVUPS(v.logEnds(x, y), y)
		Label("done")
	}
}

// log is high + low with high = e*ln2Hi + log 1/r + z and low = z*z*q(z) + e*ln2Lo + the rounding error of high.
func (v vec) log(x VecVirtual) VecVirtual {
	t := newLogTable(math.Log)
	e, base, z, ends := v.reduceLog(x, t)
	y := v.horner(z, log1pSquarePoly(t))
	VFMADD231PS(f32(ln2Hi), e, base) // exact
	high, low, z2 := v.reg(), v.reg(), v.reg()
	VADDPS(z, base, high)
	VSUBPS(base, high, low)
	VSUBPS(low, z, low)
	VMULPS(z, z, z2)
	VFMADD231PS(f32(math.Ln2-ln2Hi), e, low)
	VFMADD213PS(low, z2, y)
	if v.wide() {
		finite := K() // if low is NaN, high is the result
		VCMPPS(Imm(cmpOrdered), y, y, finite)
		VADDPS(y, high, finite, high)
		return high
	}
	VADDPS(y, high, y)
	ends(y)
	return y
}

// log2 is (e + log 1/r) + z*p(z).
func (v vec) log2(x VecVirtual) VecVirtual {
	t := newLogTable(math.Log2)
	e, y, z, ends := v.reduceLog(x, t)
	p := v.horner(z, log2OnePlusPoly(t))
	VADDPS(e, y, y) // exact
	VFMADD231PS(p, z, y)
	ends(y)
	return y
}

// log1pSquarePoly is q with ln(1+z) = z + z*z*q(z).
func log1pSquarePoly(t logTable) []float64 {
	return fit(func(z float64) float64 {
		if math.Abs(z) < 1e-3 {
			return -0.5 + z/3 - z*z/4 + z*z*z/5
		}
		return (math.Log1p(z) - z) / (z * z)
	}, t.low, t.top, 4)
}

// log2OnePlusPoly is p with log2(1+z) = z*p(z).
func log2OnePlusPoly(t logTable) []float64 {
	return fit(func(z float64) float64 {
		if math.Abs(z) < 1e-6 {
			return math.Log2E * (1 - z/2)
		}
		return math.Log1p(z) / z * math.Log2E
	}, t.low, t.top, 5)
}

// split is x = 2^e * (1+f), 1+f in [sqrt(1/2), sqrt(2)), for normal x above 0; e is an integer and a float.
func (v vec) split(x VecVirtual) (integer, e, f VecVirtual) {
	m := v.reg()
	VMOVUPS(x, m)
	integer = v.reg()
	VPSUBD(bitsConst(math.Float32bits(math.Sqrt2/2)), m, integer)
	VPSRAD(Imm(23), integer, integer)
	power := v.reg()
	VPSLLD(Imm(23), integer, power)
	VPSUBD(power, m, m)
	e = v.reg()
	VCVTDQ2PS(integer, e)
	VSUBPS(f32(1), m, m) // exact
	return integer, e, m
}

// logEnds returns log x for all x, given y = log x for positive finite x.
func (v vec) logEnds(x, y VecVirtual) VecVirtual {
	y = v.pick(cmpLT, x, v.load(f32(math.Inf(1))), y, x) // Inf and NaN
	zero := v.zero()
	y = v.pick(cmpLT, x, zero, v.load(f32(math.NaN())), y)
	return v.pick(cmpEQ, x, zero, v.load(f32(math.Inf(-1))), y)
}

// log1p is log of u = 1+x, with the rounding error of u in f.
func (v vec) log1p(x VecVirtual) VecVirtual {
	u, c := v.reg(), v.reg()
	VADDPS(f32(1), x, u)
	VSUBPS(f32(1), u, c)
	VSUBPS(c, x, c) // u + c is exactly 1+x
	integer, e, f := v.split(u)
	// c * 2^-e; for large e, c is 0 or does not matter.
	VPMINSD(bitsConst(126), integer, integer)
	power := v.load(bitsConst(127))
	VPSUBD(integer, power, power)
	VPSLLD(Imm(23), power, power)
	VFMADD231PS(power, c, f)
	y := v.horner(f, logPoly())
	VFMADD213PS(f32(-0.5), f, y)
	f2 := v.reg()
	VMULPS(f, f, f2)
	low := v.reg()
	VMULPS(f32(math.Ln2-float64(float32(math.Ln2))), e, low)
	VFMADD213PS(low, f2, y)
	VADDPS(f, y, y)
	VFMADD231PS(f32(math.Ln2), e, y)
	return v.logEnds(u, y)
}
