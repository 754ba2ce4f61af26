package splat

import "math"

// Alpha returns how much of the pixel in column x, row y a splat of the given form and opacity covers, or 0.
func (f *Form) Alpha(opacity float64, x, y int) float64 {
	dx, dy := float64(x)-f[FormX], float64(y)-f[FormY]
	u := f[FormU] + f[FormUX]*dx + f[FormUY]*dy
	v := f[FormV] + f[FormVY]*dy
	den := 1 + f[FormDX]*dx + f[FormDY]*dy + f[FormDXX]*dx*dx + f[FormDXY]*dx*dy + f[FormDYY]*dy*dy
	z := (u*u + v*v) / den
	if !(z >= 0 && z <= f[FormLimit]) || !(f[FormS]+f[FormSX]*dx+f[FormSY]*dy > 0) {
		return 0
	}
	return opacity * math.Exp2(-z)
}

// Composite has the colour of a pixel so far, from the front.
type Composite struct {
	Color        [3]float64
	T            float64 // transmittance: the share of the splats behind that still shows
	contributing int
}

// Add adds a splat that covers alpha of the pixel, and reports whether the pixel takes another splat.
func (c *Composite) Add(v *View, alpha float64, color []float64) bool {
	for j := range 3 {
		c.Color[j] += c.T * alpha * color[j]
	}
	c.T *= 1 - alpha
	c.contributing++
	return !(c.T < v.Transmittance) && (v.MaxSteps == 0 || c.contributing < v.MaxSteps)
}

// Pixel returns the red, green, blue and alpha of a pixel. list has the splats in order, and form and color theirs.
func (v *View) Pixel(x, y int, list func(yield func(i int) bool), form func(i int) *Form,
	color func(i int) []float64) [4]float64 {
	c := Composite{T: 1}
	list(func(i int) bool {
		rgba := color(i)
		alpha := form(i).Alpha(rgba[3], x, y)
		return alpha == 0 || c.Add(v, alpha, rgba)
	})
	return v.finish(&c)
}

func (v *View) finish(c *Composite) (rgba [4]float64) {
	for j := range 3 {
		rgba[j], _ = encode(c.Color[j] + c.T*v.Background[j])
	}
	rgba[3] = 1 - c.T
	return rgba
}

// Render renders a scene, which was checked, pixel by pixel.
func Render[T Float](v *View, s *Scene[T], rgba []float64) {
	p := Prepare(v, s)
	all := func(yield func(int) bool) {
		for _, i := range p.Order {
			if !yield(int(i)) {
				return
			}
		}
	}
	for y := range v.Height {
		for x := range v.Width {
			c := v.Pixel(x, y, all, func(i int) *Form { return &p.Forms[i] },
				func(i int) []float64 { return p.Colors[i][:] })
			copy(rgba[(y*v.Width+x)*4:], c[:])
		}
	}
}
