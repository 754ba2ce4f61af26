package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// pieces approximates a function of a in [0, limit] by polynomials on eight intervals. One instruction of AVX2 selects
// one of eight floats, so a coefficient costs as much as a constant. The interval is given by three bits of s =
// a*scale + 1, from bit shift on.
type pieces struct {
	limit, scale float64
	shift        uint64
	center       [8]float64   // polynomials are in a - center, which has no rounding error
	coefficients [][8]float64 // by power, then by interval
	// added to the slope of the first interval; it has few bits, so that the remainder is more precise
	slope float64
}

// widening returns pieces whose intervals widen with a, for functions that get smoother: s in [1, 1.5), [1.5, 2), [2,
// 3), ... [12, 16).
func widening(f func(float64) float64, limit float64, degree int) pieces {
	return newPieces(f, limit, degree, 22, []float64{1, 1.5, 2, 3, 4, 6, 8, 12, 16})
}

// uniform returns pieces with intervals of equal width: the first three bits of the fraction of s.
func uniform(f func(float64) float64, limit float64, degree int) pieces {
	return newPieces(f, limit, degree, 20, []float64{1, 1.125, 1.25, 1.375, 1.5, 1.625, 1.75, 1.875, 2})
}

// newPieces fits f up to limit. bounds are the values of s between intervals. The first interval has its center at 0,
// where f must be a float; if f(0) is 0, the error in that interval is relative. Other centers are points where f is
// nearly a float, so that the constant coefficient has almost no rounding error.
func newPieces(f func(float64) float64, limit float64, degree int, shift uint64, bounds []float64) pieces {
	top := bounds[8]
	scale := float64(float32((top - 1) / limit))
	// s stays below top
	p := pieces{limit: (top - 1) / scale * (1 - 0x1p-21), scale: scale, shift: shift,
		coefficients: make([][8]float64, degree+1)}
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

// firstPiece is the index of the interval at 0, where s is 1, of widening.
const firstPiece = 0x3f800000 >> 22 & 7

// nearFloat returns the float x within reach of middle for which f(x) is closest to a float.
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

// repeated returns a table for indices of which only three bits count.
func repeated(x [8]float64) (table [16]float64) {
	copy(table[:], x[:])
	copy(table[8:], x[:])
	return table
}

// lookUp returns table[index]. It uses the low four bits of index for AVX-512, the low three for AVX2.
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

// lookUps holds the tables already written to the file.
var lookUps = map[[16]uint32]Mem{}

// tanhPieces approximates tanh up to 10, where 1-tanh(a) is 4e-9.
func tanhPieces() pieces { return widening(math.Tanh, 10, 7) }

// erfPieces approximates erf up to 4.25, where 1-erf(a) is 2e-9. Its slope at 0, 2/sqrt(pi), is not close to a float.
func erfPieces() pieces {
	p := widening(math.Erf, 4.25, 7)
	p.slope = 1.125
	p.coefficients[1][firstPiece] -= p.slope
	return p
}

// geluPieces approximates gelu(-a) up to 4.5. For larger a it falls too fast for polynomials of this degree. f(0)
// is -0.
func geluPieces() pieces {
	return uniform(func(a float64) float64 { return -a * 0.5 * math.Erfc(a/math.Sqrt2) }, 4.5, 8)
}

// tailPieces approximates exp(a*a/2)*Phi(-a) up to 16, where exp(-a*a/2) is far below the least float.
func tailPieces() pieces {
	return widening(func(a float64) float64 { return 0.5 * math.Erfc(a/math.Sqrt2) * math.Exp(a*a/2) }, 16, 7)
}

// expHalfPoly is e^(-u/2), |u| <= ln(2); relative error 8e-8.
func expHalfPoly() []float64 {
	return fit(func(u float64) float64 { return math.Exp(-u / 2) }, -0.6935, 0.6935, 5)
}
