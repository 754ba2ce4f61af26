package ptx

import (
	"math"

	"github.com/rlx-go/rlx/plugins/internal/wgsl"
)

// This file has the functions of WGSL for which PTX has only approximations.

func (t *translator) mul(x, y operand) operand { return t.result("mul.rn.f32", wgsl.F32, x, y) }

func (t *translator) fma(x, y, z operand) operand { return t.result("fma.rn.f32", wgsl.F32, x, y, z) }

// exp computes e^x as 2^a (1 + b log 2). Here a + b = x log2(e), and a is the nearest float. The error is that of
// ex2.approx, 2^-22, and a rounding.
func (t *translator) exp(x operand) operand {
	const log2e = 1.4426950408889634073599
	high := float(log2e)
	low := float(float32(log2e - float64(math.Float32frombits(high.bits))))
	// beyond -150 the result is 0, and an infinite x would give NaN
	x = t.choice(wgsl.F32, float(-150), x, t.compare("<", wgsl.F32, x, float(-150)))
	a := t.mul(x, high)
	b := t.fma(x, high, t.result("neg.f32", wgsl.F32, a))
	b = t.fma(x, low, b)
	y := t.result("ex2.approx.f32", wgsl.F32, a)
	finite := t.compare("<", wgsl.F32, y, number(0x7f800000))
	return t.choice(wgsl.F32, t.fma(y, t.mul(b, float(math.Ln2)), y), y, finite)
}

// logTerms approximate (log(1+x) - x + x^2/2) / x^3 for |x| <= 1/3, such that the error of log(1+x) is below one unit
// in the last place. They were fitted by least squares, reweighted repeatedly to even out the error.
var logTerms = []float32{0x1.55550cp-2, -0x1.fffe5ep-3, 0x1.99ce42p-3, -0x1.55b7e8p-3, 0x1.1ef18cp-3, -0x1.f03c1ap-4,
	0x1.1df39ap-3, -0x1.0e2a6ep-3}

// log computes log(m 2^k) = log(m) + k log(2) with m from 2/3 to 4/3.
func (t *translator) log(x operand) operand {
	inf := number(0x7f800000)
	tiny := t.compare("<", wgsl.F32, x, float(0x1p-126))
	scaled := t.choice(wgsl.F32, t.mul(x, float(0x1p23)), x, tiny)
	n := t.from("mov.b32", wgsl.I32, wgsl.F32, scaled)
	up := t.integer("&", wgsl.I32, t.integer("-", wgsl.I32, n, number(math.Float32bits(2./3))), number(0xff800000))
	m := t.from("mov.b32", wgsl.F32, wgsl.I32, t.integer("-", wgsl.I32, n, up))
	k := t.from("cvt.rn.f32.s32", wgsl.F32, wgsl.I32, t.integer(">>", wgsl.I32, up, number(23)))
	k = t.result("add.rn.f32", wgsl.F32, k, t.choice(wgsl.F32, float(-23), float(0), tiny))
	f := t.result("add.rn.f32", wgsl.F32, m, float(-1))
	p := float(logTerms[len(logTerms)-1])
	for i := len(logTerms) - 2; i >= 0; i-- {
		p = t.fma(p, f, float(logTerms[i]))
	}
	p = t.fma(p, f, float(-0.5))
	y := t.fma(k, float(math.Ln2), t.fma(p, t.mul(f, f), f))
	y = t.choice(wgsl.F32, y, x, t.compare("<", wgsl.F32, x, inf)) // infinity and NaN stay what they are
	y = t.choice(wgsl.F32, number(0x7fc00000), y, t.compare("<", wgsl.F32, x, float(0)))
	return t.choice(wgsl.F32, number(0xff800000), y, t.compare("==", wgsl.F32, x, float(0)))
}
