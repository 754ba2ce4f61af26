package splat

import (
	"fmt"
	"math"
)

// Scene has the splats, flat: positions [N,3], scales [N,3] as logarithms, rotations [N,4] as w, x, y, z, opacities
// [N], colors [N,3] and sh [N,C,3].
type Scene[T Float] struct {
	N, C                                                int
	Positions, Scales, Rotations, Opacities, Colors, SH []T
	// FromColors says that the constant term of every colour comes from Colors, because SH lacks it; see Check.
	FromColors bool
}

// maxScale is the largest logarithm of a scale. Larger ones do not fit into f32.
const maxScale = 80

// Check returns an error that names the first value that no splat may have. It sets FromColors.
func (s *Scene[T]) Check() error {
	for _, part := range []struct {
		name   string
		values []T
	}{
		{"positions", s.Positions}, {"scales", s.Scales}, {"rotations", s.Rotations}, {"opacities", s.Opacities},
		{"colors", s.Colors}, {"sh", s.SH},
	} {
		for i, x := range part.values {
			if !(x-x == 0) {
				return fmt.Errorf("%s[%d], of splat %d, is %v; want a finite number", part.name, i,
					i/(len(part.values)/s.N), x)
			}
		}
	}
	for i, x := range s.Scales {
		if x > maxScale {
			return fmt.Errorf("scales[%d], of splat %d, is %v; want a logarithm of at most %d", i, i/3, x, maxScale)
		}
	}
	for i := range s.N {
		if q := s.quaternion(i); q == [4]float64{} {
			return fmt.Errorf("rotations of splat %d are all 0; want a quaternion w, x, y, z", i)
		}
	}
	s.FromColors = true
	for i := 0; i < s.N && s.FromColors; i++ {
		for c := range 3 {
			if math.Abs(float64(s.SH[i*s.C*3+c])) > 1e-8 {
				s.FromColors = false
			}
		}
	}
	return nil
}

func (s *Scene[T]) vec(of []T, i int) Vec {
	return Vec{float64(of[3*i]), float64(of[3*i+1]), float64(of[3*i+2])}
}

// quaternion returns the rotation of splat i, normalised.
func (s *Scene[T]) quaternion(i int) [4]float64 {
	var q [4]float64
	most := 0.0
	for k := range q {
		q[k] = float64(s.Rotations[4*i+k])
		most = max(most, math.Abs(q[k]))
	}
	if most == 0 {
		return q
	}
	sum := 0.0
	for k := range q {
		q[k] /= most // so that no square underflows
		sum += q[k] * q[k]
	}
	for k := range q {
		q[k] /= math.Sqrt(sum)
	}
	return q
}

// Splat is the geometry of one splat as a camera sees it.
type Splat struct {
	Support  Vec     // semi-axes of the ellipsoid at 3 standard deviations
	Local    [3]Vec  // row k is axis k of the splat in world coordinates, divided by its support
	Rel      Vec     // position - camera
	Distance float64 // |Rel|
	Opacity  float64
	Limit    float64 // log2(opacity/cutoff): a pixel with a larger exponent lies outside of the splat
}

// splat computes the geometry of splat i. It returns false for a splat that no pixel shows: too transparent, or with
// its centre behind the camera.
func (v *View) splat(opacity float64, position, logScale Vec, q [4]float64, s *Splat) bool {
	s.Opacity = min(max(opacity, 0), 1)
	s.Rel = position.plus(-1, v.Position)
	if !(s.Opacity > v.AlphaCutoff) || !(s.Rel.dot(v.Forward) > 1e-4) {
		return false
	}
	s.Limit = math.Log2(s.Opacity / v.AlphaCutoff)
	s.Distance = s.Rel.norm()
	axes := axesOf(q)
	for k := range 3 {
		s.Support[k] = v.support(logScale[k])
		s.Local[k] = axes[k].times(1 / s.Support[k])
	}
	return true
}

// minSupport is the least semi-axis of a splat.
const minSupport = 1e-6

func (v *View) support(logScale float64) float64 {
	return max(math.Exp(logScale)*v.RadiusScale*3, minSupport)
}

// Project computes the geometry of splat i of a scene. It returns false for a splat that no pixel shows.
func Project[T Float](v *View, s *Scene[T], i int, out *Splat) bool {
	return v.splat(float64(s.Opacities[i]), s.vec(s.Positions, i), s.vec(s.Scales, i), s.quaternion(i), out)
}

// axesOf returns the rows of R(q)^T, which are the splat's axes in world coordinates.
func axesOf(q [4]float64) [3]Vec {
	w, x, y, z := q[0], q[1], q[2], q[3]
	return [3]Vec{
		{1 - 2*(y*y+z*z), 2 * (x*y + w*z), 2 * (x*z - w*y)},
		{2 * (x*y - w*z), 1 - 2*(x*x+z*z), 2 * (y*z + w*x)},
		{2 * (x*z + w*y), 2 * (y*z - w*x), 1 - 2*(x*x+y*y)},
	}
}

// local returns a vector of the world in the splat's coordinates, in units of its support.
func (s *Splat) local(a Vec) Vec { return Vec{s.Local[0].dot(a), s.Local[1].dot(a), s.Local[2].dot(a)} }
