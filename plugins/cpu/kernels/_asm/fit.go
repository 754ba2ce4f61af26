package main

import "math"

// fit interpolates f at Chebyshev nodes of [lo, hi] and returns the coefficients of the polynomial in x, constant
// first. For smooth functions the error is within a small factor of that of the minimax polynomial.
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

// phiPivot is c in the variable t = 2c/(a+c) of phiPoly.
const phiPivot = 3.5

// phiMax is an argument at which the normal distribution's tail is below the range of float32.
const phiMax = 14.5

// phiPoly is p with exp(a*a/2)*Phi(-a) = t*p(u), u = 1-t, the scaled tail of the normal distribution, for a in [0,
// phiMax]; relative error 3e-8.
func phiPoly() []float64 {
	p := func(u float64) float64 {
		a := phiPivot * (1 + u) / (1 - u)
		return 0.5 * math.Erfc(a/math.Sqrt2) * math.Exp(a*a/2) / (1 - u)
	}
	return fit(p, -1, (phiMax-phiPivot)/(phiMax+phiPivot), 9)
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

// erfPoly is p with erf(x) = x + x*p(x*x), |x| <= 1.
func erfPoly() []float64 {
	return fit(func(z float64) float64 {
		if z < 1e-8 {
			return 2/math.Sqrt(math.Pi)*(1-z/3) - 1
		}
		return math.Erf(math.Sqrt(z))/math.Sqrt(z) - 1
	}, 0, 1, 7)
}

// angleLimit is the least angle that sinCos cannot reduce. Below it |q| < 2^17, and rounding does not carry |r| beyond
// angleMax.
const angleLimit = 1 << 17

// angleMax is pi/4 plus what rounding q = a*2/pi can add for a below angleLimit.
const angleMax = 0.79

// halfPi returns pi/2 in three parts of 24 bits. All are positive, so that +0 - q*part is not -0 for q = 0.
func halfPi() [3]float64 {
	const first, second = 0x1.921fb4p+0, 0x1.4442dp-24
	return [3]float64{first, second, 0x1.8469898cc5170p-48}
}

// sinPoly is p with sin(r) = r + r*z*p(z), z = r*r, |r| <= angleMax; relative error 1e-10.
func sinPoly() []float64 {
	return fit(func(z float64) float64 {
		if z < 1e-4 {
			return -1.0/6 + z/120 - z*z/5040
		}
		r := math.Sqrt(z)
		return (math.Sin(r)/r - 1) / z
	}, 0, angleMax*angleMax, 3)
}

// cosPoly is p with cos(r) = 1 + z*p(z); error 2e-9.
func cosPoly() []float64 {
	return fit(func(z float64) float64 {
		if z < 1e-4 {
			return -0.5 + z/24 - z*z/720
		}
		return (math.Cos(math.Sqrt(z)) - 1) / z
	}, 0, angleMax*angleMax, 3)
}

// tanPoly is p with tan(r) = r + r*z*p(z); relative error 2e-9.
func tanPoly() []float64 {
	return fit(func(z float64) float64 {
		if z < 1e-4 {
			return 1.0/3 + z*2/15 + z*z*17/315
		}
		r := math.Sqrt(z)
		return (math.Tan(r)/r - 1) / z
	}, 0, angleMax*angleMax, 6)
}

// atanPoly is p with atan(t) = t + t*z*p(z), z = t*t, |t| <= 1.
func atanPoly() []float64 {
	return fit(func(z float64) float64 {
		if z < 1e-4 {
			return -1.0/3 + z/5 - z*z/7
		}
		t := math.Sqrt(z)
		return (math.Atan(t)/t - 1) / z
	}, 0, 1, 9)
}

// logPoly is p with log(1+f) = f + f*f*(f*p(f) - 1/2), 1+f from sqrt(1/2) to sqrt(2).
func logPoly() []float64 {
	return fit(func(f float64) float64 {
		if math.Abs(f) < 1e-2 {
			s := 0.0
			for k := 14; k >= 3; k-- { // 1/3 - f/4 + ...
				s = 1/float64(k) - f*s
			}
			return s
		}
		return (math.Log1p(f) - f + f*f/2) / (f * f * f)
	}, math.Sqrt2/2-1, math.Sqrt2-1, 8)
}

// exp2m1Poly is p with 2^r = 1 + r*p(r) on |r| <= 1/2; relative error 2e-9.
func exp2m1Poly() []float64 {
	return fit(func(r float64) float64 {
		if math.Abs(r) < 1e-6 {
			return math.Ln2 + r*math.Ln2*math.Ln2/2
		}
		return math.Expm1(r*math.Ln2) / r
	}, -0.5, 0.5, 5)
}

// log2Poly is p with log2(1+f) = f/ln(2) + f*f*p(f), 1+f from sqrt(1/2) to sqrt(2).
func log2Poly() []float64 {
	return fit(func(f float64) float64 {
		if math.Abs(f) < 1e-2 {
			s := 0.0
			for k := 14; k >= 2; k-- { // -1/2 + f/3 - ...
				s = 1/float64(k) - f*s
			}
			return -s * math.Log2E
		}
		return (math.Log1p(f) - f) / (f * f) * math.Log2E
	}, math.Sqrt2/2-1, math.Sqrt2-1, 9)
}

// log1pPoly is p with ln(1+z) = z*p(z), z from 0 to 1; relative error 2e-9.
func log1pPoly() []float64 {
	return fit(func(z float64) float64 {
		if z < 1e-8 {
			return 1 - z/2
		}
		return math.Log1p(z) / z
	}, 0, 1, 10)
}
