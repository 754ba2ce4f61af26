package splat

import "math"

// Form says what a splat adds to each pixel, without the camera. The pixel in column x, row y, with dx = x - f[FormX]
// and dy = y - f[FormY], computes
//
//	u = f[FormU] + f[FormUX]*dx + f[FormUY]*dy
//	v = f[FormV] + f[FormVY]*dy
//	den = 1 + f[FormDX]*dx + f[FormDY]*dy + f[FormDXX]*dx*dx + f[FormDXY]*dx*dy + f[FormDYY]*dy*dy
//	z = (u*u + v*v) / den
//	alpha = opacity * 2^-z    if 0 <= z <= f[FormLimit] and f[FormS] + f[FormSX]*dx + f[FormSY]*dy > 0, else 0
//
// With o the camera and d the ray of the pixel, in the splat's axes and in units of its support, the ray is closest to
// the centre at the distance |o x d| / |d|. o x d is linear in dx and dy and orthogonal to o, so u and v are its two
// coordinates, up to a factor, and den is |d|^2. The third condition is d.o < 0: the closest point lies before the
// camera. FormX and FormY are the pixel nearest to the centre. There o x d is small and is computed without
// cancellation, so that f32 is enough for the form.
type Form [FormLen]float64

// FormLen is the number of values of a form; the other constants are indices.
const (
	FormX = iota
	FormY
	FormU
	FormUX
	FormUY
	FormV
	FormVY
	FormDX
	FormDY
	FormDXX
	FormDXY
	FormDYY
	FormS
	FormSX
	FormSY
	FormLimit
	FormLen
)

// Exponent is sqrt(4.5*log2(e)): alpha = opacity * exp(-4.5*r^2) = opacity * 2^-(Exponent*r)^2 at the distance r.
var Exponent = math.Sqrt(4.5 * math.Log2E)

// Frame has what the gradient needs in addition to a form: the ray d = D + DX*dx + DY*dy in the splat's coordinates,
// with |D| = 1, and the vectors E and F of which u and v are the coordinates. The point of the ray closest to the
// centre is d x (u*E + v*F) / (Exponent*den).
type Frame struct{ D, DX, DY, E, F Vec }

// Form computes the form and the frame of a splat.
func (v *View) Form(s *Splat, f *Form, frame *Frame) {
	depth := s.Rel.dot(v.Forward)
	col := s.Rel.dot(v.Right)/depth*v.Focal + 0.5*float64(v.Width) - 0.5
	row := s.Rel.dot(v.Down)/depth*v.Focal + 0.5*float64(v.Height) - 0.5
	x := math.Round(min(max(col, 0), float64(v.Width-1)))
	y := math.Round(min(max(row, 0), float64(v.Height-1)))

	o := s.local(s.Rel.times(-1))
	d, dx, dy := s.local(v.ray(x, y)), s.local(v.Right.times(1/v.Focal)), s.local(v.Down.times(1/v.Focal))
	scale := 1 / d.norm()
	d, dx, dy = d.times(scale), dx.times(scale), dy.times(scale)

	w, wx, wy := o.cross(d), o.cross(dx), o.cross(dy)
	e := wx.times(1 / wx.norm())
	g := o.times(1 / o.norm()).cross(e)
	k := Exponent
	*f = Form{
		FormX: x, FormY: y, FormU: k * w.dot(e), FormUX: k * wx.norm(), FormUY: k * wy.dot(e),
		FormV: k * w.dot(g), FormVY: k * wy.dot(g),
		FormDX: 2 * d.dot(dx), FormDY: 2 * d.dot(dy), FormDXX: dx.dot(dx), FormDXY: 2 * dx.dot(dy), FormDYY: dy.dot(dy),
		FormS: -d.dot(o), FormSX: -dx.dot(o), FormSY: -dy.dot(o), FormLimit: s.Limit,
	}
	if frame != nil {
		*frame = Frame{d, dx, dy, e, g}
	}
}

// fits reports whether the values of a form are finite in f32.
func (f *Form) fits() bool {
	for _, x := range f {
		if !(math.Abs(x) <= math.MaxFloat32) {
			return false
		}
	}
	return true
}

// Conic is the region of a form where z is at most the limit:
// A*dx^2 + B*dx*dy + C*dy^2 + D*dx + E*dy + F <= 0. Pixels outside do not show the splat.
type Conic struct {
	X, Y             float64 // the pixel from which dx and dy count
	A, B, C, D, E, F float64
	// Ellipse is set if the region is an ellipse. Otherwise it may have any form, and the sign of a form must be
	// checked, too.
	Ellipse bool

	cx, cy, hx, hy float64 // of an ellipse: the centre, as dx and dy, and half the size
	tilt           float64 // dy - cy of the rightmost point
}

// Conic returns the region of a form.
func (f *Form) Conic() Conic {
	limit := f[FormLimit] * (1 + 1e-6)
	limit += 1e-6
	c := Conic{
		X: f[FormX], Y: f[FormY],
		A: f[FormUX]*f[FormUX] - limit*f[FormDXX],
		B: 2*f[FormUX]*f[FormUY] - limit*f[FormDXY],
		C: f[FormUY]*f[FormUY] + f[FormVY]*f[FormVY] - limit*f[FormDYY],
		D: 2*f[FormU]*f[FormUX] - limit*f[FormDX],
		E: 2*(f[FormU]*f[FormUY]+f[FormV]*f[FormVY]) - limit*f[FormDY],
		F: f[FormU]*f[FormU] + f[FormV]*f[FormV] - limit,
	}
	det := c.A*c.C - c.B*c.B/4
	if !(c.A > 0 && c.C > 0 && det > 1e-9*c.A*c.C) {
		return c
	}
	c.cx, c.cy = (c.B*c.E/4-c.C*c.D/2)/det, (c.B*c.D/4-c.A*c.E/2)/det
	least := c.F + (c.D*c.cx+c.E*c.cy)/2
	c.hx, c.hy = math.Sqrt(max(-least, 0)*c.C/det), math.Sqrt(max(-least, 0)*c.A/det)
	c.tilt = -c.B * c.hx / (2 * c.C)
	c.Ellipse = !math.IsNaN(c.hx) && !math.IsInf(c.hx, 0) && !math.IsNaN(c.cx+c.cy+c.hy+c.tilt)
	return c
}

// slack is how many pixels a region is enlarged, against rounding.
const slack = 1.0 / 64

// Rows returns the rows [lo, hi) of an image of the given height that the region meets.
func (c *Conic) Rows(height int) (lo, hi int) {
	if !c.Ellipse {
		return 0, height
	}
	return clip(c.Y+c.cy-c.hy, c.Y+c.cy+c.hy, height)
}

// clip returns the integers [lo, hi) below n that lie between a and b.
func clip(a, b float64, n int) (lo, hi int) {
	lo = int(math.Ceil(min(max(a-slack, 0), float64(n))))
	hi = int(math.Floor(min(max(b+slack, -1), float64(n-1)))) + 1
	return lo, max(lo, hi)
}

// Columns returns the columns [lo, hi) of an image of the given width that the region meets in rows [top, bottom).
func (c *Conic) Columns(top, bottom, width int) (lo, hi int) {
	if !c.Ellipse {
		return 0, width
	}
	low := max(float64(top)-c.Y-c.cy, -c.hy)
	high := max(min(float64(bottom-1)-c.Y-c.cy, c.hy), low)
	a, _ := c.edge(min(max(-c.tilt, low), high))
	_, b := c.edge(min(max(c.tilt, low), high))
	return clip(c.X+a, c.X+b, width)
}

// edge returns the values of dx where the ellipse begins and ends at a height above its centre.
func (c *Conic) edge(above float64) (lo, hi float64) {
	dy := min(max(above, -c.hy), c.hy) + c.cy
	half := -(c.B*dy + c.D) / (2 * c.A)
	root := 0.0
	if c.hy > 0 {
		t := (dy - c.cy) / c.hy
		// The width at the centre's height is 2*sqrt(-least/A), and hx^2 = -least*C/det.
		root = c.hx * math.Sqrt(max(1-t*t, 0)*(1-c.B*c.B/(4*c.A*c.C)))
	}
	return half - root, half + root
}
