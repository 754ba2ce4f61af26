// Package patching cuts images into patches as the image processor of Qwen2-VL does (Wang et al., arXiv:2409.12191),
// which later models share: an image is resized so that blocks of patches cover it, and normalised.
package patching

import (
	"image"
	"math"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/imaging"
)

// A Rule says how images are resized, normalised and cut. Its numbers must be positive.
type Rule struct {
	Patch, Merge         int // side of a patch in pixels, and of a block in patches
	Frames               int // how often a row repeats a still image
	MinPixels, MaxPixels int // area of a resized image
	MaxPatches           int // images with more patches are refused
	Mean, Std            [3]float64
}

// maxRatio is the maximum ratio of the longer side to the shorter.
const maxRatio = 200

// Grid returns the number of rows and columns of patches of a resized image of w x h pixels. Resizing rounds the sides
// to multiples of a block and brings the area between MinPixels and MaxPixels. The error is a *diag.Error with
// code.ImagePatches.
func (r *Rule) Grid(w, h int) (rows, columns int, err error) {
	width, height, block := float64(w), float64(h), float64(r.Patch*r.Merge)
	if max(width, height) > maxRatio*min(width, height) {
		return 0, 0,
			diag.New(code.ImagePatches, "image", "has %d x %d pixels; one side may be %d times as long as the other", w,
				h, maxRatio)
	}
	// in blocks; ties round to even, as in Python
	down, across := math.RoundToEven(height/block), math.RoundToEven(width/block)
	switch area := down * across * block * block; {
	case area > float64(r.MaxPixels):
		shrink := math.Sqrt(height * width / float64(r.MaxPixels))
		down, across = max(1, math.Floor(height/shrink/block)), max(1, math.Floor(width/shrink/block))
	case area < float64(r.MinPixels):
		grow := math.Sqrt(float64(r.MinPixels) / (height * width))
		down, across = math.Ceil(height*grow/block), math.Ceil(width*grow/block)
	}
	if n := down * across * float64(r.Merge*r.Merge); n > float64(r.MaxPatches) {
		return 0, 0,
			diag.New(code.ImagePatches, "image", "has %d x %d pixels, which are %.0f patches; the artifact allows %d",
				w, h, n, r.MaxPatches)
	}
	return int(down) * r.Merge, int(across) * r.Merge, nil
}

// Bytes returns the number of bytes that Rows allocates for a grid.
func (r *Rule) Bytes(rows, columns int) int64 {
	n := int64(rows) * int64(columns)
	return 4 * n * int64(r.Row()+3*r.Patch*r.Patch) // the result and the resized image
}

// Row returns the number of values of a patch.
func (r *Rule) Row() int { return 3 * r.Frames * r.Patch * r.Patch }

// Rows returns the rows [rows*columns, 3*Frames*Patch*Patch] of an image. It computes the same as the published image
// processor: bicubic resizing with antialiasing to 8 bits, then (value/255 - Mean) / Std. A row has order (channel,
// frame, y, x), with equal frames. Rows are sorted by block, and inside a block line by line. The error is that of
// Grid.
func (r *Rule) Rows(img image.Image) (values []float32, rows, columns int, err error) {
	if rows, columns, err = r.Grid(img.Bounds().Dx(), img.Bounds().Dy()); err != nil {
		return nil, 0, 0, err
	}
	return r.Cut(r.Resized(img, rows, columns), rows, columns), rows, columns, nil
}

// Cut returns the rows of a resized image, which Resized has returned.
func (r *Rule) Cut(resized []float32, rows, columns int) []float32 {
	p, m := r.Patch, r.Merge
	wide := columns * p
	var normal [3][256]float32
	for c := range normal {
		for v := range normal[c] {
			normal[c][v] = float32((float64(v)/255 - r.Mean[c]) / r.Std[c])
		}
	}
	values := make([]float32, 0, rows*columns*r.Row())
	for i := range rows * columns {
		block, inside := i/(m*m), i%(m*m)
		y0, x0 := (block/(columns/m)*m+inside/m)*p, (block%(columns/m)*m+inside%m)*p
		for c := range 3 {
			frame := len(values)
			for y := y0; y < y0+p; y++ {
				for x := x0; x < x0+p; x++ {
					values = append(values, normal[c][uint8(resized[3*(y*wide+x)+c])])
				}
			}
			one := values[frame:]
			for range r.Frames - 1 {
				values = append(values, one...)
			}
		}
	}
	return values
}

// Resized returns an image resized to a grid: lines of pixels of three values from 0 to 255.
func (r *Rule) Resized(img image.Image, rows, columns int) []float32 {
	w, h := img.Bounds().Dx(), img.Bounds().Dy()
	return imaging.Resize(w, h, 3, imaging.Bicubic(w, columns*r.Patch, true), imaging.Bicubic(h, rows*r.Patch, true),
		imaging.PyTorch, imaging.RGBRow(img))
}
