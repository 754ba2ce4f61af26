package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// pieces is a function of a in [0, limit] as a polynomial for each of eight intervals. Eight is what one instruction of AVX2 selects from,
// so that a coefficient costs as much as a constant. Bits of s = a*scale + 1 tell the intervals apart, those from shift on.
type pieces struct {
	limit, scale float64
	shift        uint64
	center       [8]float64   // the polynomials are in a - center, which has no rounding error
	coefficients [][8]float64 // by power, then by interval
	slope        float64      // to add to that of the first interval; it has few bits, so that the rest can have more
}

// widening has intervals that widen with a, for functions that get smoother: s in [1, 1.5), [1.5, 2), [2, 3), ... [12, 16).
func widening(f func(float64) float64, limit float64, degree int) pieces {
	return newPieces(f, limit, degree, 22, []float64{1, 1.5, 2, 3, 4, 6, 8, 12, 16})
}

// uniform has intervals of equal width, which the first three bits of the fraction of s tell apart.
func uniform(f func(float64) float64, limit float64, degree int) pieces {
	return newPieces(f, limit, degree, 20, []float64{1, 1.125, 1.25, 1.375, 1.5, 1.625, 1.75, 1.875, 2})
}

// newPieces fits f up to limit; bounds are of s. The first interval has its center at 0, where f must be a float; if f is 0 there, the error
// of that interval is relative. The other centers lie where f is nearly a float, so that rounding the constant coefficient costs nothing.
func newPieces(f func(float64) float64, limit float64, degree int, shift uint64, bounds []float64) pieces {
	top := bounds[8]
	scale := float64(float32((top - 1) / limit))
	p := pieces{limit: (top - 1) / scale * (1 - 0x1p-21), scale: scale, shift: shift, coefficients: make([][8]float64, degree+1)} // s stays below top
	for i := range 8 {
		lo, hi := (bounds[i]-1)/scale, (bounds[i+1]-1)/scale
		var center float64
		var c []float64
		if i == 0 {
			c = append([]float64{f(0)}, fit(func(t float64) float64 { return (f(t) - f(0)) / t }, 0, hi, degree-1)...)
		} else {
			center = nearFloat(f, (lo+hi)/2, (hi-lo)/20)
			c = fit(func(t float64) float64 { return f(center + t) }, lo-center, hi-center, degree)
		}
		at := math.Float32bits(float32(bounds[i])) >> shift & 7
		p.center[at] = center
		for k := range c {
			p.coefficients[k][at] = c[k]
		}
	}
	return p
}

// firstPiece is the place of the interval at 0, where s is 1, if intervals widen.
const firstPiece = 0x3f800000 >> 22 & 7

// nearFloat is the float x within reach of middle for which f(x) is nearest to a float.
func nearFloat(f func(float64) float64, middle, reach float64) (best float64) {
	least := math.Inf(1)
	for k := -1000; k <= 1000; k++ {
		x := float64(float32(middle + reach*float64(k)/1000))
		if d := math.Abs(f(x) - float64(float32(f(x)))); d < least {
			best, least = x, d
		}
	}
	return best
}

// pieces evaluates p at a.
func (v vec) pieces(a VecVirtual, p pieces) VecVirtual {
	s := v.load(f32(1))
	VFMADD231PS(f32(p.scale), a, s)
	VPSRLD(Imm(p.shift), s, s)
	t := v.lookUp(repeated(p.center), s)
	VSUBPS(t, a, t)
	degree := len(p.coefficients) - 1
	last := v.lookUp(repeated(p.coefficients[0]), s)
	if p.slope != 0 {
		VFMADD231PS(v.lookUp(repeated([8]float64{firstPiece: p.slope}), s), t, last)
	}
	y := v.lookUp(repeated(p.coefficients[degree]), s)
	for k := degree - 1; k > 0; k-- {
		VFMADD213PS(v.lookUp(repeated(p.coefficients[k]), s), t, y)
	}
	VFMADD213PS(last, t, y)
	return y
}

// repeated is a table for indices of which three bits count.
func repeated(x [8]float64) (table [16]float64) {
	copy(table[:], x[:])
	copy(table[8:], x[:])
	return table
}

// lookUp is table[index], by the low four bits of index in wide vectors, else by the low three.
func (v vec) lookUp(table [16]float64, index Register) VecVirtual {
	var bits [16]uint32
	for i, x := range table {
		bits[i] = math.Float32bits(float32(x))
	}
	m, ok := lookUps[bits]
	if !ok {
		m = GLOBL(fmt.Sprintf("table%d", len(lookUps)), 8|16) // RODATA|NOPTR
		for i, b := range bits {
			DATA(4*i, U32(b))
		}
		lookUps[bits] = m
	}
	y := v.reg()
	VPERMPS(m, index, y)
	return y
}

// lookUps are the tables already written to the file.
var lookUps = map[[16]uint32]Mem{}

// tanhPieces ends where 1-tanh(a) is 4e-9.
func tanhPieces() pieces { return widening(math.Tanh, 10, 7) }

// erfPieces ends where 1-erf(a) is 2e-9. 2/sqrt(pi), its slope at 0, lies between two floats.
func erfPieces() pieces {
	p := widening(math.Erf, 4.25, 7)
	p.slope = 1.125
	p.coefficients[1][firstPiece] -= p.slope
	return p
}

// geluPieces is gelu(-a) to 4.5; it falls faster than polynomials of this degree follow for larger a. f(0) is -0.
func geluPieces() pieces {
	return uniform(func(a float64) float64 { return -a * 0.5 * math.Erfc(a/math.Sqrt2) }, 4.5, 8)
}

// tailPieces is exp(a*a/2)*Phi(-a). It ends where exp(-a*a/2) is far below the least float.
func tailPieces() pieces {
	return widening(func(a float64) float64 { return 0.5 * math.Erfc(a/math.Sqrt2) * math.Exp(a*a/2) }, 16, 7)
}

// expHalfPoly is e^(-u/2), |u| <= ln(2); relative error 8e-8.
func expHalfPoly() []float64 {
	return fit(func(u float64) float64 { return math.Exp(-u / 2) }, -0.6935, 0.6935, 5)
}
