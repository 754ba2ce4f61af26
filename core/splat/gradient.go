package splat

import (
	"fmt"
	"math"
)

// Sums of one splat over the pixels that show it, from which its gradient follows. With h = alpha * dL/dalpha and p the
// point of the ray that is closest to the centre, in the splat's coordinates, they are the sums of h, h*p, h*p*p^T (xx,
// xy, xz, yy, yz, zz) and dL/dcolor.
//
// They suffice because alpha = opacity*exp(-4.5*|p|^2), and p = W*(camera - position + t*ray) minimises |p| over t, so
// that d|p|^2 = 2*p^T*dW*W^-1*p - 2*p^T*W*dposition.
type Sums [SumsLen]float64

// SumsLen is the number of sums; the other constants are indices.
const (
	SumH      = 0
	SumPoint  = 1
	SumSquare = 4
	SumColor  = 10
	SumsLen   = 13
)

// Gradient has the gradient with respect to a scene, each part as in Scene.
type Gradient[T Float] struct {
	Positions, Scales, Rotations, Opacities, Colors, SH []T
}

// Chain sets the gradient of splat i from its sums.
func Chain[T Float](v *View, s *Scene[T], i int, sums *Sums, out *Gradient[T]) {
	var g Splat
	if !Project(v, s, i, &g) {
		return
	}
	// dL/d(|p|^2) is -4.5*h, and |p|^2 changes by twice the products above.
	var point Vec
	var square [3]Vec // dL/dW = square * W^-T
	for k := range 3 {
		point[k] = -9 * sums[SumPoint+k]
	}
	for at, rc := range [][2]int{{0, 0}, {0, 1}, {0, 2}, {1, 1}, {1, 2}, {2, 2}} {
		x := -9 * sums[SumSquare+at]
		square[rc[0]][rc[1]], square[rc[1]][rc[0]] = x, x
	}

	if raw := float64(s.Opacities[i]); raw >= 0 && raw <= 1 {
		out.Opacities[i] = T(sums[SumH] / g.Opacity)
	}
	position := colorGradient(s, i, &g, Vec(sums[SumColor:SumColor+3]), out)
	for k := range 3 {
		position = position.plus(-point[k], g.Local[k])
		if g.Support[k] > minSupport {
			out.Scales[3*i+k] = T(-square[k][k])
		}
	}
	for k := range 3 {
		out.Positions[3*i+k] = T(position[k])
	}
	// W = diag(1/support) * axes, so dL/daxes = diag(1/support) * square * diag(support) * axes.
	var axes [3]Vec
	for k := range 3 {
		for m := range 3 {
			axes[k] = axes[k].plus(square[k][m]*g.Support[m]/g.Support[k], g.Local[m].times(g.Support[m]))
		}
	}
	turn(s, i, axes, out)
}

// turn sets the gradient of a rotation from that of its matrix; see axesOf.
func turn[T Float](s *Scene[T], i int, m [3]Vec, out *Gradient[T]) {
	q := s.quaternion(i)
	w, x, y, z := q[0], q[1], q[2], q[3]
	d := [4]float64{
		2 * (z*(m[0][1]-m[1][0]) + y*(m[2][0]-m[0][2]) + x*(m[1][2]-m[2][1])),
		2 * (y*(m[0][1]+m[1][0]) + z*(m[0][2]+m[2][0]) + w*(m[1][2]-m[2][1]) - 2*x*(m[1][1]+m[2][2])),
		2 * (x*(m[0][1]+m[1][0]) + z*(m[1][2]+m[2][1]) + w*(m[2][0]-m[0][2]) - 2*y*(m[0][0]+m[2][2])),
		2 * (x*(m[0][2]+m[2][0]) + y*(m[1][2]+m[2][1]) + w*(m[0][1]-m[1][0]) - 2*z*(m[0][0]+m[1][1])),
	}
	along, size := 0.0, 0.0
	for k := range 4 {
		along += d[k] * q[k]
		size += math.Pow(float64(s.Rotations[4*i+k]), 2)
	}
	for k := range 4 {
		out.Rotations[4*i+k] = T((d[k] - along*q[k]) / math.Sqrt(size))
	}
}

// colorGradient sets the gradients of colors and sh, and returns that of the position through the direction.
func colorGradient[T Float](s *Scene[T], i int, g *Splat, color Vec, out *Gradient[T]) Vec {
	var b [16]float64
	var slopes [16]Vec
	n, dir := Terms(s.C), g.Rel.times(-1).unit()
	harmonics(n, dir, &b, &slopes)
	var toDir Vec
	for k := range n {
		at := (i*s.C + k) * 3
		if k == 0 && s.FromColors {
			for j := range 3 {
				if x := float64(s.Colors[3*i+j]); x >= 0 && x <= 1 {
					out.Colors[3*i+j] = T(color[j])
				}
			}
			continue
		}
		for j := range 3 {
			out.SH[at+j] = T(b[k] * color[j])
			toDir = toDir.plus(float64(s.SH[at+j])*color[j], slopes[k])
		}
	}
	// dir = -Rel/|Rel|
	return toDir.plus(-toDir.dot(dir), dir).times(-1 / g.Distance)
}

// Backward sets the gradient of a loss from its gradient with respect to the image, pixel by pixel, for a scene that
// was checked. clip limits the norm of the gradient at a pixel, as the linear colour sees it; 0 means no limit. Order,
// visibility and cutoffs count as constant.
func Backward[T Float](v *View, s *Scene[T], dRGBA []float64, clip float64, out *Gradient[T]) {
	p := Prepare(v, s)
	sums := make([]Sums, s.N)
	splats := make([]Splat, s.N)
	for _, i := range p.Order {
		Project(v, s, int(i), &splats[i])
	}
	type hit struct {
		i        int32
		alpha, T float64 // T in front of the splat
	}
	var hits []hit
	for y := range v.Height {
		for x := range v.Width {
			c := Composite{T: 1}
			hits = hits[:0]
			for _, i := range p.Order {
				alpha := p.Forms[i].Alpha(p.Colors[i][3], x, y)
				if alpha == 0 {
					continue
				}
				hits = append(hits, hit{i, alpha, c.T})
				if !c.Add(v, alpha, p.Colors[i][:]) {
					break
				}
			}
			g := v.LinearGradient(c.Color, c.T, dRGBA[(y*v.Width+x)*4:], clip)
			toT := g.dot(v.Background)
			ray := v.ray(float64(x), float64(y))
			for k := len(hits) - 1; k >= 0; k-- {
				h := hits[k]
				color := Vec(p.Colors[h.i][:3])
				toAlpha := h.T * (g.dot(color) - toT)
				toT = (1-h.alpha)*toT + h.alpha*g.dot(color)
				s := &splats[h.i]
				o, d := s.local(s.Rel.times(-1)), s.local(ray)
				sums[h.i].add(h.alpha*toAlpha, o.plus(-o.dot(d)/d.dot(d), d), g.times(h.T*h.alpha))
			}
		}
	}
	for _, i := range p.Order {
		Chain(v, s, int(i), &sums[i], out)
	}
}

func (s *Sums) add(h float64, p, color Vec) {
	s[SumH] += h
	for k := range 3 {
		s[SumPoint+k] += h * p[k]
		s[SumColor+k] += color[k]
	}
	at := SumSquare
	for k := range 3 {
		for m := k; m < 3; m++ {
			s[at] += h * p[k] * p[m]
			at++
		}
	}
}

// LinearGradient returns the gradient with respect to the linear colour of a pixel, from that of its encoded red, green
// and blue.
func (v *View) LinearGradient(color [3]float64, t float64, d []float64, clip float64) (g Vec) {
	for j := range 3 {
		_, slope := encode(color[j] + t*v.Background[j])
		g[j] = slope * d[j]
	}
	if n := g.norm(); clip > 0 && n > clip {
		g = g.times(clip / n)
	}
	return g
}

// CheckImageGradient returns an error that names the first value of d_rgba that is not finite, except alpha's.
func CheckImageGradient[T Float](d []T, width int) error {
	for i, x := range d {
		if i%4 < 3 && !(x-x == 0) {
			return fmt.Errorf("d_rgba of column %d, row %d is %v; want finite numbers", i/4%width, i/4/width, x)
		}
	}
	return nil
}
