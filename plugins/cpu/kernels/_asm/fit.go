package main

import "math"

// fit interpolates f at Chebyshev nodes of [lo, hi] and returns the coefficients of the polynomial in x, constant first.
// For smooth functions this is within a small factor of the minimax polynomial, and needs no search.
func fit(f func(float64) float64, lo, hi float64, degree int) []float64 {
	n := degree + 1
	xs, c := make([]float64, n), make([]float64, n)
	for i := range xs {
		xs[i] = (lo+hi)/2 + (hi-lo)/2*math.Cos(math.Pi*(float64(i)+0.5)/float64(n))
		c[i] = f(xs[i])
	}
	for j := 1; j < n; j++ { // divided differences
		for i := n - 1; i >= j; i-- {
			c[i] = (c[i] - c[i-1]) / (xs[i] - xs[i-j])
		}
	}
	p := make([]float64, n)
	for i := n - 1; i >= 0; i-- { // p = p*(x - xs[i]) + c[i]
		for k := n - 1; k > 0; k-- {
			p[k] = p[k-1] - xs[i]*p[k]
		}
		p[0] = c[i] - xs[i]*p[0]
	}
	return p
}

// expPoly is q with exp(r) = 1 + r + r*r*q(r) on |r| <= ln(2)/2; relative error 1e-8.
func expPoly() []float64 {
	q := func(r float64) float64 {
		if math.Abs(r) < 1e-3 {
			return 0.5 + r/6 + r*r/24 + r*r*r/120
		}
		return (math.Expm1(r) - r) / (r * r)
	}
	return fit(q, -0.3467, 0.3467, 4)
}

// exp2Poly is 2^r on |r| <= 1/2; relative error 1e-7.
func exp2Poly() []float64 { return fit(math.Exp2, -0.5, 0.5, 5) }

// phiPivot is c in the variable u = (a-c)/(a+c) of phiPoly.
const phiPivot = 3.5

// phiMax is where the normal distribution's tail has left the range of float32.
const phiMax = 14.5

// phiPoly is g(u) = exp(a*a/2)*Phi(-a), the scaled tail of the normal distribution, for a in [0, phiMax]; relative error 7e-9.
func phiPoly() []float64 {
	g := func(u float64) float64 {
		a := phiPivot * (1 + u) / (1 - u)
		return 0.5 * math.Erfc(a/math.Sqrt2) * math.Exp(a*a/2)
	}
	return fit(g, -1, (phiMax-phiPivot)/(phiMax+phiPivot), 10)
}

// tanhPoly is p with tanh(x) = x + x*z*p(z), z = x*x, |x| <= tanhSplit.
func tanhPoly() []float64 {
	return fit(func(z float64) float64 {
		if z < 1e-4 {
			return -1.0/3 + 2.0/15*z
		}
		x := math.Sqrt(z)
		return (math.Tanh(x)/x - 1) / z
	}, 0, tanhSplit*tanhSplit, 5)
}

const tanhSplit = 0.625

// erfPoly is p with erf(x) = x*p(x*x), |x| <= 1.
func erfPoly() []float64 {
	return fit(func(z float64) float64 {
		if z < 1e-8 {
			return 2 / math.Sqrt(math.Pi) * (1 - z/3)
		}
		return math.Erf(math.Sqrt(z)) / math.Sqrt(z)
	}, 0, 1, 7)
}
