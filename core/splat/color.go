package splat

import "math"

// Constants of the real spherical harmonics, degree by degree, with the signs and digits that files of splats assume.
const (
	C0  = 0.28209479
	C1  = 0.48860251
	c20 = 1.0925484305920792
	c22 = 0.31539156525252005
	c24 = 0.5462742152960396
	c30 = 0.5900435899266435
	c31 = 2.890611442640554
	c32 = 0.4570457994644658
	c33 = 0.3731763325901154
	c35 = 1.445305721320277
)

// Terms returns how many of c coefficients count: those of whole degrees, up to degree 3.
func Terms(c int) int {
	for _, n := range []int{16, 9, 4} {
		if c >= n {
			return n
		}
	}
	return 1
}

// harmonics sets b to the first n functions in direction d, and grad, unless it is nil, to their derivatives as if d
// were any vector.
func harmonics(n int, d Vec, b *[16]float64, grad *[16]Vec) {
	x, y, z := d[0], d[1], d[2]
	b[0] = C0
	if n >= 4 {
		b[1], b[2], b[3] = -C1*y, C1*z, -C1*x
	}
	if n >= 9 {
		b[4], b[5], b[6] = c20*x*y, -c20*y*z, c22*(2*z*z-x*x-y*y)
		b[7], b[8] = -c20*x*z, c24*(x*x-y*y)
	}
	if n >= 16 {
		b[9], b[10], b[11] = -c30*y*(3*x*x-y*y), c31*x*y*z, -c32*y*(4*z*z-x*x-y*y)
		b[12], b[13] = c33*z*(2*z*z-3*x*x-3*y*y), -c32*x*(4*z*z-x*x-y*y)
		b[14], b[15] = c35*z*(x*x-y*y), -c30*x*(x*x-3*y*y)
	}
	if grad == nil {
		return
	}
	*grad = [16]Vec{}
	if n >= 4 {
		grad[1], grad[2], grad[3] = Vec{0, -C1, 0}, Vec{0, 0, C1}, Vec{-C1, 0, 0}
	}
	if n >= 9 {
		grad[4], grad[5] = Vec{c20 * y, c20 * x, 0}, Vec{0, -c20 * z, -c20 * y}
		grad[6], grad[7] = Vec{-2 * c22 * x, -2 * c22 * y, 4 * c22 * z}, Vec{-c20 * z, 0, -c20 * x}
		grad[8] = Vec{2 * c24 * x, -2 * c24 * y, 0}
	}
	if n >= 16 {
		grad[9] = Vec{-6 * c30 * x * y, -3 * c30 * (x*x - y*y), 0}
		grad[10] = Vec{c31 * y * z, c31 * x * z, c31 * x * y}
		grad[11] = Vec{2 * c32 * x * y, -c32 * (4*z*z - x*x - 3*y*y), -8 * c32 * y * z}
		grad[12] = Vec{-6 * c33 * x * z, -6 * c33 * y * z, c33 * (6*z*z - 3*x*x - 3*y*y)}
		grad[13] = Vec{-c32 * (4*z*z - 3*x*x - y*y), 2 * c32 * x * y, -8 * c32 * x * z}
		grad[14] = Vec{2 * c35 * x * z, -2 * c35 * y * z, c35 * (x*x - y*y)}
		grad[15] = Vec{-3 * c30 * (x*x - y*y), 6 * c30 * x * y, 0}
	}
}

// Color returns the colour of splat i, seen from a camera at rel = position - camera. It may be negative.
func Color[T Float](s *Scene[T], i int, rel Vec) Vec {
	var b [16]float64
	n := Terms(s.C)
	harmonics(n, rel.times(-1).unit(), &b, nil)
	c := Vec{0.5, 0.5, 0.5}
	for k := range n {
		for j := range 3 {
			c[j] += b[k] * float64(s.SH[(i*s.C+k)*3+j])
		}
	}
	if s.FromColors {
		for j := range 3 {
			c[j] += min(max(float64(s.Colors[3*i+j]), 0), 1) - 0.5 - C0*float64(s.SH[i*s.C*3+j])
		}
	}
	return c
}

// encode returns the value of the image for a linear colour, and its derivative.
func encode(linear float64) (value, slope float64) {
	if linear <= 0 {
		return 0, 0
	}
	value = math.Pow(linear, gamma)
	return value, gamma * value / linear
}

const gamma = 2.2
