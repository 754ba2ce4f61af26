package segment

import (
	"image"

	"github.com/rlx-go/rlx/internal/imaging"
)

// geometry relates an image to the square input of a model.
type geometry struct {
	Width, Height    int // size of the image
	ScaledW, ScaledH int // size of the scaled image, which lies at the upper left of the square
	Size             int // side of the square
}

// geometry returns the position of an image of w x h pixels in the square.
func (s *spec) geometry(w, h int) geometry {
	g := geometry{Width: w, Height: h, Size: s.Size}
	g.ScaledW, g.ScaledH = s.Size, s.Size
	if w >= h {
		g.ScaledH = scaledSide(h, w, s.Size)
	} else {
		g.ScaledW = scaledSide(w, h, s.Size)
	}
	return g
}

// scaledSide returns side*size/longest rounded to the nearest pixel, halves up, and at least 1.
func scaledSide(side, longest, size int) int {
	return max(1, int(float64(side)*float64(size)/float64(longest)+0.5))
}

// preprocess returns the input tensor [1,3,Size,Size] for an image: f32, planes R, G, B. The image is scaled by the
// resize rule and normalised as (value - Mean) / Std with values from 0 to 255; the square is filled with zeros to the
// right and below.
func (s *spec) preprocess(img image.Image) ([]float32, geometry) {
	b := img.Bounds()
	g := s.geometry(b.Dx(), b.Dy())
	small := imaging.Resize(g.Width, g.Height, 3, imaging.Bilinear(g.Width, g.ScaledW, true),
		imaging.Bilinear(g.Height, g.ScaledH, true), true, imaging.RGBRow(img))
	out := make([]float32, 3*s.Size*s.Size)
	for c := range 3 {
		mean, inv := float32(s.Mean[c]), float32(1/s.Std[c])
		for y := range g.ScaledH {
			dst, src := out[(c*s.Size+y)*s.Size:][:g.ScaledW], small[y*g.ScaledW*3+c:]
			for x := range dst {
				dst[x] = (src[3*x] - mean) * inv
			}
		}
	}
	return out, g
}
