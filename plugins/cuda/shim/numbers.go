package shim

import (
	"math"
)

func value(bits uint32) float64 { return float64(math.Float32frombits(bits)) }

func number(f float32) uint32 { return math.Float32bits(f) }

// smaller and larger are min and max of floats: the other operand if one is NaN.
func smaller(a, b uint32) uint32 {
	x, y := math.Float32frombits(a), math.Float32frombits(b)
	switch {
	case x != x:
		return b
	case y != y:
		return a
	}
	return number(min(x, y))
}

func larger(a, b uint32) uint32 {
	x, y := math.Float32frombits(a), math.Float32frombits(b)
	switch {
	case x != x:
		return b
	case y != y:
		return a
	}
	return number(max(x, y))
}

// largest is max.NaN: NaN if one operand is.
func largest(a, b uint32) uint32 {
	return number(max(math.Float32frombits(a), math.Float32frombits(b)))
}

// smallest is min.NaN: NaN if one operand is.
func smallest(a, b uint32) uint32 {
	return number(min(math.Float32frombits(a), math.Float32frombits(b)))
}

// clamped converts a float to an integer between two bounds. NaN gives 0.
func clamped(least, most float64) func(a uint32) uint32 {
	return func(a uint32) uint32 {
		x := math.Trunc(value(a))
		if x != x {
			return 0
		}
		return uint32(int64(min(max(x, least), most)))
	}
}

// approximate returns 2^x with an error of up to 2^-22 that depends on x, as a GPU's ex2.approx has.
func approximate(a uint32) uint32 {
	x := value(a)
	if x == math.Trunc(x) {
		return number(float32(math.Exp2(x)))
	}
	off := float64(int32(a*2654435761)) * 0x1p-53
	return number(float32(math.Exp2(x) * (1 + off)))
}

func reciprocal(x float64) float64 { return 1 / x }

// logicOf is a function of three bits for each bit of words: bit 4a+2b+c of table is its value.
func logicOf(a, b, c, table uint32) (out uint32) {
	for k := range uint32(8) {
		if table>>k&1 == 0 {
			continue
		}
		pick := func(w, bit uint32) uint32 { return w ^ (k>>bit&1 - 1) } // all bits that are bit k>>bit&1 become 1
		out |= pick(a, 2) & pick(b, 1) & pick(c, 0)
	}
	return out
}

// permuted returns four of the bytes of two words, the lower first. Four bits of selector pick each.
func permuted(low, high, selector uint32) (out uint32) {
	both := uint64(high)<<32 | uint64(low)
	for i := range 4 {
		out |= uint32(both>>(8*(selector>>(4*i)&7))) & 0xff << (8 * i)
	}
	return out
}

// sumOfHalves returns a*b + c of the bf16 in the upper halves of words, as a bf16.
func sumOfHalves(a, b, c uint32) uint32 {
	f := func(w uint32) float64 { return value(w &^ 0xffff) }
	return rounded(f(a)*f(b)+f(c), 8, -126) >> 16
}

// sumOfNarrow returns a*b + c of the f16 in the lower halves of words, as an f16.
func sumOfNarrow(a, b, c uint32) uint32 {
	f := func(w uint32) float64 { return float64(half(uint16(w))) }
	return narrow(f(a)*f(b) + f(c))
}

// flushed returns a float, or 0 if it is denormal.
func flushed(a uint32) uint32 {
	if a>>23&0xff == 0 {
		return a & (1 << 31)
	}
	return a
}

// rounded rounds a float to that many digits in base 2, half to even. Values below 2^least have fewer.
func rounded(f float64, digits, least int) uint32 {
	if f == 0 || f-f != 0 {
		return number(float32(f))
	}
	_, e := math.Frexp(f)
	unit := math.Ldexp(1, max(e-1, least)-digits+1)
	return number(float32(math.RoundToEven(f/unit) * unit))
}

// narrow returns a float as f16.
func narrow(f float64) uint32 {
	sign := uint32(0)
	if math.Signbit(f) {
		sign, f = 1<<15, -f
	}
	switch g := value(rounded(f, 11, -14)); {
	case f != f:
		return 0x7fff
	case g >= 65536:
		return sign | 31<<10
	case g < 0x1p-14:
		return sign | uint32(g*0x1p24)
	default:
		bits := number(float32(g))
		return sign | (bits>>23-112)<<10 | bits>>13&0x3ff
	}
}

// half returns the value of an f16.
func half(h uint16) float32 {
	sign, e, m := float32(1), int(h>>10&31), float32(h&0x3ff)
	if h>>15 == 1 {
		sign = -1
	}
	switch e {
	case 0:
		return sign * m * 0x1p-24
	case 31:
		return math.Float32frombits(uint32(h&0x8000)<<16 | 0x7f800000 | uint32(h&0x3ff)<<13)
	}
	return sign * float32(math.Ldexp(float64(1+m/1024), e-15))
}
