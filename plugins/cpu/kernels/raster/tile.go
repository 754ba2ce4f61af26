package raster

import (
	"math"

	"github.com/rlx-go/rlx/core/splat"
)

// tile has the pixels of a tile while splats are added.
type tile struct {
	x0, y0, x1, y1 int
	color          [side * side][3]float32
	transmittance  [side * side]float32
	left           [side * side]int32 // how many more splats a pixel takes
	taking         int                // pixels that take another
	thr            float32
}

// begin prepares a tile for pixels [x0, x1) x [y0, y1), at most side of each.
func (t *tile) begin(v *splat.View, x0, y0, x1, y1 int) {
	t.x0, t.y0, t.x1, t.y1 = x0, y0, x1, y1
	t.thr = float32(v.Transmittance)
	t.taking = (x1 - x0) * (y1 - y0)
	steps := int32(math.MaxInt32)
	if v.MaxSteps > 0 {
		steps = int32(v.MaxSteps)
	}
	t.color = [side * side][3]float32{}
	for p := range t.left {
		t.left[p], t.transmittance[p] = steps, 1
	}
}

// row has a form at one row of the image, and the columns [lo, hi) where it may show.
type row struct {
	u, ux, vv, den, d1, dxx, limit, s, sx float32
	lo, hi                                int
}

// at computes the row; the columns are limited to [x0, x1).
func (f *form) at(r *row, y, x0, x1 int, plain bool) {
	dy := float32(y) - f[splat.FormY]
	v := f[splat.FormV] + f[splat.FormVY]*dy
	r.u, r.ux, r.vv = f[splat.FormU]+f[splat.FormUY]*dy, f[splat.FormUX], v*v
	r.den, r.d1 = 1+dy*(f[splat.FormDY]+f[splat.FormDYY]*dy), f[splat.FormDX]+f[splat.FormDXY]*dy
	r.dxx, r.limit = f[splat.FormDXX], f[splat.FormLimit]
	r.s, r.sx = 1, 0
	if !plain {
		r.s, r.sx = f[splat.FormS]+f[splat.FormSY]*dy, f[splat.FormSX]
	}
	r.lo, r.hi = x0, x1
	// z <= limit is a*dx^2 + b*dx + c <= 0. The limit is raised and the roots are moved apart, against rounding; the
	// test of each pixel decides.
	u, ux, limit := float64(r.u), float64(r.ux), float64(r.limit)*(1+1e-5)+1e-5
	a := ux*ux - limit*float64(r.dxx)
	b := u*ux - limit*float64(r.d1)/2
	c := u*u + float64(r.vv) - limit*float64(r.den)
	if !(a > 0) {
		return
	}
	root := b*b - a*c
	if root < 0 {
		r.hi = x0
		return
	}
	root = math.Sqrt(root)
	x := float64(f[splat.FormX])
	if lo := x + (-b-root)/a - 1.0/64; lo > float64(x0) {
		r.lo = int(math.Ceil(min(lo, float64(x1))))
	}
	if hi := x + (-b+root)/a + 1.0/64; hi < float64(x1-1) {
		r.hi = int(math.Floor(max(hi, float64(x0-1)))) + 1
	}
}

// add adds a splat.
func (t *tile) add(f *form, color *[4]float32, e extent) {
	var r row
	red, green, blue, opacity := color[0], color[1], color[2], color[3]
	for y := max(int(e.top), t.y0); y < min(int(e.bottom), t.y1); y++ {
		f.at(&r, y, t.x0, t.x1, e.plain)
		base := (y-t.y0)*side - t.x0
		for x := r.lo; x < r.hi; x++ {
			p := (base + x) & (side*side - 1)
			if t.left[p] == 0 {
				continue
			}
			z, hit := r.exponent(float32(x) - f[splat.FormX])
			if !hit {
				continue
			}
			alpha := opacity * halved(z)
			w := t.transmittance[p] * alpha
			c := &t.color[p]
			c[0] += w * red
			c[1] += w * green
			c[2] += w * blue
			t.take(p, t.transmittance[p]*(1-alpha))
		}
	}
}

// take notes the transmittance of a pixel after a splat.
func (t *tile) take(p int, transmittance float32) {
	t.transmittance[p] = transmittance
	t.left[p]--
	if transmittance < t.thr {
		t.left[p] = 0
	}
	if t.left[p] == 0 {
		t.taking--
	}
}

// finish writes the pixels to an image.
func (t *tile) finish(v *splat.View, rgba []float32) {
	var background [3]float32
	for j := range background {
		background[j] = float32(v.Background[j])
	}
	for y := t.y0; y < t.y1; y++ {
		to := rgba[(y*v.Width+t.x0)*4:][:4*(t.x1-t.x0)]
		for x := range t.x1 - t.x0 {
			p := (y-t.y0)*side + x
			for j, c := range t.color[p] {
				to[4*x+j] = encode(c + t.transmittance[p]*background[j])
			}
			to[4*x+3] = 1 - t.transmittance[p]
		}
	}
}

// exponent returns z of a pixel at the distance dx from the splat's column, whose alpha is the opacity times 2^-z. hit
// is false if the splat does not reach the pixel.
func (r *row) exponent(dx float32) (z float32, hit bool) {
	u := r.u + r.ux*dx
	z = (u*u + r.vv) / (r.den + dx*(r.d1+r.dxx*dx))
	return z, z >= 0 && z <= r.limit && r.s+r.sx*dx > 0
}

// halved returns 2^-z for z of 0 to 126, with a relative error of about 1e-7.
func halved(z float32) float32 {
	n := int32(z + 0.5)
	x := (float32(n) - z) * math.Ln2 // -0.35 to 0.35
	// Taylor's polynomial of exp; the next term is 1e-7 at the ends.
	e := 1 + x*(1+x*(1.0/2+x*(1.0/6+x*(1.0/24+x*(1.0/120+x*(1.0/720))))))
	return math.Float32frombits(math.Float32bits(e) - uint32(n)<<23)
}

// encode returns max(0, x)^2.2.
func encode(x float32) float32 {
	switch {
	case x <= 0:
		return 0
	case !(x >= 1e-30 && x <= 1e15):
		return float32(math.Pow(float64(x), 2.2))
	}
	// x^2.2 = x^2 * 2^(log2(x)/5), with x = m*2^n, m of 0.7 to 1.4, and the series of the logarithm in t.
	bits := math.Float32bits(x)
	n := int32(bits-0x3f3504f3) >> 23
	m := math.Float32frombits(bits - uint32(n)<<23)
	t := (m - 1) / (m + 1)
	tt := t * t
	log := float32(2/math.Ln2) * t * (1 + tt*(1.0/3+tt*(1.0/5+tt*(1.0/7+tt*(1.0/9)))))
	y := -(float32(n) + log) / 5
	if y < 0 {
		return x * x / halved(-y)
	}
	return x * x * halved(y)
}
