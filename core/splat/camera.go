// Package splat has the geometry of 3D Gaussian splats in float64: cameras, the projection of splats, their colours,
// and the gradients. The definitions of the ops gaussian_splat_... and the kernels of the cpu backend both use it, so
// that order, visibility and lists of tiles are the same. pixel.go has the computation of a pixel.
//
// Kerbl et al., "3D Gaussian Splatting for Real-Time Radiance Field Rendering" (2023), introduced the method. Here a
// pixel evaluates each Gaussian where its ray comes closest to the centre, which is exact in perspective, as in
// Keselman and Hebert (2022).
package splat

import (
	"fmt"
	"math"
)

// Float is the element type of a scene.
type Float interface{ float32 | float64 }

// Vec is a vector in space.
type Vec [3]float64

func (a Vec) dot(b Vec) float64 { return a[0]*b[0] + a[1]*b[1] + a[2]*b[2] }

func (a Vec) plus(s float64, b Vec) Vec { return Vec{a[0] + s*b[0], a[1] + s*b[1], a[2] + s*b[2]} }

func (a Vec) times(s float64) Vec { return Vec{a[0] * s, a[1] * s, a[2] * s} }

func (a Vec) cross(b Vec) Vec {
	return Vec{a[1]*b[2] - a[2]*b[1], a[2]*b[0] - a[0]*b[2], a[0]*b[1] - a[1]*b[0]}
}

func (a Vec) norm() float64 { return math.Sqrt(a.dot(a)) }

// unit returns a/|a|, or (0,0,1) if |a| is at most 1e-8.
func (a Vec) unit() Vec {
	n := a.norm()
	if n <= 1e-8 {
		return Vec{0, 0, 1}
	}
	return a.times(1 / n)
}

// MetaLen is the number of values of meta.
const MetaLen = 23

// Indices into meta.
const (
	MetaPosition      = 0
	MetaTarget        = 3
	MetaUp            = 6
	MetaFovY          = 9 // degrees
	MetaNear          = 10
	MetaFar           = 11
	MetaBackground    = 12
	MetaWidth         = 15
	MetaHeight        = 16
	MetaTile          = 17
	MetaRadiusScale   = 18
	MetaAlphaCutoff   = 19
	MetaMaxSteps      = 20
	MetaTransmittance = 21
	MetaMaxList       = 22
)

// View is a camera, and what meta says about rendering.
type View struct {
	Width, Height int

	Position, Forward, Right, Down Vec
	// Focal is the focal length in pixels. Column x, row y looks along Forward + Right*(x+0.5-Width/2)/Focal +
	// Down*(y+0.5-Height/2)/Focal. Down is Forward x Right; the image of a camera whose up vector is +y has +y at the
	// bottom.
	Focal float64

	Background    [3]float64
	RadiusScale   float64
	AlphaCutoff   float64
	MaxSteps      int // splats that may add to a pixel; 0 means any number
	Transmittance float64
}

// NewView reads meta.
func NewView[T Float](meta []T, width, height int) (View, error) {
	v := View{Width: width, Height: height}
	at := func(i int) float64 { return float64(meta[i]) }
	for i := range meta {
		read := i < MetaNear || i >= MetaBackground && i < MetaWidth || i >= MetaRadiusScale && i < MetaMaxList
		if x := at(i); read && (math.IsNaN(x) || math.IsInf(x, 0)) {
			return v, fmt.Errorf("meta[%d] is %v; want a finite number", i, x)
		}
	}
	fov, radius, cutoff := at(MetaFovY), at(MetaRadiusScale), at(MetaAlphaCutoff)
	switch {
	case !(fov > 0 && fov < 180):
		return v, fmt.Errorf("meta[%d], the field of view, is %v degrees; want more than 0 and less than 180", MetaFovY,
			fov)
	case !(radius > 0 && radius <= 1e6):
		return v, fmt.Errorf("meta[%d], radius_scale, is %v; want more than 0, at most 1e6", MetaRadiusScale, radius)
	case !(cutoff >= 1e-9):
		return v, fmt.Errorf("meta[%d], alpha_cutoff, is %v; want 1e-9 or more", MetaAlphaCutoff, cutoff)
	}
	vec := func(i int) Vec { return Vec{at(i), at(i + 1), at(i + 2)} }
	v.Position = vec(MetaPosition)
	v.Forward = vec(MetaTarget).plus(-1, v.Position).unit()
	v.Right = vec(MetaUp).cross(v.Forward).unit()
	v.Down = v.Forward.cross(v.Right)
	v.Focal = 0.5 * float64(height) / math.Tan(fov*math.Pi/360)
	v.Background = vec(MetaBackground)
	v.RadiusScale, v.AlphaCutoff, v.Transmittance = radius, cutoff, at(MetaTransmittance)
	if steps := at(MetaMaxSteps); steps >= 1 {
		v.MaxSteps = int(min(steps, math.MaxInt32))
	}
	return v, nil
}

// ray returns the direction in which a point of the image looks, which is not of unit length. Pixel centres have whole
// coordinates.
func (v *View) ray(x, y float64) Vec {
	return v.Forward.plus((x+0.5-0.5*float64(v.Width))/v.Focal, v.Right).
		plus((y+0.5-0.5*float64(v.Height))/v.Focal, v.Down)
}
