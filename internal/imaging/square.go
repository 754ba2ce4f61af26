package imaging

import "image"

// A Square relates an image to the square input of a model, as SAM's preprocessing does: scaled so that the longest
// side fills it, at the upper left. SAM 2 scales both sides to the whole square.
type Square struct {
	Width, Height    int // size of the image
	ScaledW, ScaledH int // size of the scaled image
	Size             int // side of the square
}

// SquareOf returns the position of an image of w x h pixels in a square.
func SquareOf(w, h, size int) Square {
	g := Square{Width: w, Height: h, Size: size, ScaledW: size, ScaledH: size}
	if w >= h {
		g.ScaledH = scaledSide(h, w, size)
	} else {
		g.ScaledW = scaledSide(w, h, size)
	}
	return g
}

// StretchedTo returns the position of an image of w x h pixels that is scaled to a whole square.
func StretchedTo(w, h, size int) Square {
	return Square{Width: w, Height: h, ScaledW: size, ScaledH: size, Size: size}
}

// scaledSide returns side*size/longest rounded to the nearest pixel, halves up, and at least 1.
func scaledSide(side, longest, size int) int {
	return max(1, int(float64(side)*float64(size)/float64(longest)+0.5))
}

// Pixels returns the tensor [1,3,Size,Size] of an image: f32, planes R, G, B. The image is scaled (bilinear with
// antialiasing, rounded to 8 bits after each direction) and normalised as (value - mean) / std with values from 0 to
// 255. To the right and below, the square is filled with zeros.
func (g Square) Pixels(img image.Image, mean, std [3]float64) []float32 {
	small := Resize(g.Width, g.Height, 3, Bilinear(g.Width, g.ScaledW, true), Bilinear(g.Height, g.ScaledH, true),
		Pillow,
		RGBRow(img))
	out := make([]float32, 3*g.Size*g.Size)
	for c := range 3 {
		from, inv := float32(mean[c]), float32(1/std[c])
		for y := range g.ScaledH {
			dst, src := out[(c*g.Size+y)*g.Size:][:g.ScaledW], small[y*g.ScaledW*3+c:]
			for x := range dst {
				dst[x] = (src[3*x] - from) * inv
			}
		}
	}
	return out
}
