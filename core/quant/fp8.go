package quant

import "math"

// E4M3 returns the value of an 8-bit float in OCP's format E4M3: bias 7, no infinities; 0x7f and 0xff are NaN.
func E4M3(b byte) float32 {
	e, m := int(b>>3&15), float64(b&7)
	switch {
	case b&0x7f == 0x7f:
		return float32(math.NaN())
	case e == 0:
		return signed(b, math.Ldexp(m, -9))
	}
	return signed(b, math.Ldexp(8+m, e-10))
}

// E5M2 returns the value of an 8-bit float in OCP's format E5M2: bias 15, infinities and NaN as in IEEE 754.
func E5M2(b byte) float32 {
	e, m := int(b>>2&31), float64(b&3)
	switch {
	case e == 31 && m != 0:
		return float32(math.NaN())
	case e == 31:
		return signed(b, math.Inf(1))
	case e == 0:
		return signed(b, math.Ldexp(m, -16))
	}
	return signed(b, math.Ldexp(4+m, e-17))
}

// E2M1 returns the value of a 4-bit float: 0, 0.5, 1, 1.5, 2, 3, 4 or 6 for q from 0 to 7, and their negatives for q
// from 8 to 15.
func E2M1(q byte) float32 { return fp4[q&15] / 2 }

func signed(b byte, v float64) float32 {
	if b>>7 != 0 {
		v = -v
	}
	return float32(v)
}
