package patches

import (
	"image"
	"math"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/imaging"
)

// maxRatio is the maximum ratio of the longer side to the shorter.
const maxRatio = 200

// grid returns the number of rows and columns of patches of a resized image of w x h pixels. Resizing rounds the sides
// to multiples of a block and brings the area between MinPixels and MaxPixels. The error is a *diag.Error with
// code.ImagePatches.
func (t *spec) grid(w, h int) (rows, columns int, err error) {
	width, height, block := float64(w), float64(h), float64(t.Patch*t.Merge)
	if max(width, height) > maxRatio*min(width, height) {
		return 0, 0,
			diag.New(code.ImagePatches, "image", "has %d x %d pixels; one side may be %d times as long as the other", w,
				h, maxRatio)
	}
	// in blocks; ties round to even, as in Python
	down, across := math.RoundToEven(height/block), math.RoundToEven(width/block)
	switch area := down * across * block * block; {
	case area > float64(t.MaxPixels):
		shrink := math.Sqrt(height * width / float64(t.MaxPixels))
		down, across = max(1, math.Floor(height/shrink/block)), max(1, math.Floor(width/shrink/block))
	case area < float64(t.MinPixels):
		grow := math.Sqrt(float64(t.MinPixels) / (height * width))
		down, across = math.Ceil(height*grow/block), math.Ceil(width*grow/block)
	}
	if n := down * across * float64(t.Merge*t.Merge); n > float64(t.MaxPatches) {
		return 0, 0,
			diag.New(code.ImagePatches, "image", "has %d x %d pixels, which are %.0f patches; the artifact allows %d",
				w, h, n, t.MaxPatches)
	}
	return int(down) * t.Merge, int(across) * t.Merge, nil
}

// bytes returns the number of bytes that rows allocates for a grid.
func (t *spec) bytes(rows, columns int) int64 {
	n := int64(rows) * int64(columns)
	return 4 * n * int64(t.row()+3*t.Patch*t.Patch) // the result and the resized image
}

// rows returns the rows [rows*columns, 3*Frames*Patch*Patch] of an image. It computes the same as the published image
// processor: bicubic resizing with antialiasing to 8 bits, then (value/255 - Mean) / Std. A row has order (channel,
// frame, y, x), with equal frames. Rows are sorted by block, and inside a block line by line. The error is that of
// grid.
func (t *spec) rows(img image.Image) (values []float32, rows, columns int, err error) {
	if rows, columns, err = t.grid(img.Bounds().Dx(), img.Bounds().Dy()); err != nil {
		return nil, 0, 0, err
	}
	p, m := t.Patch, t.Merge
	wide := columns * p
	small := t.resized(img, rows, columns)
	var normal [3][256]float32
	for c := range normal {
		for v := range normal[c] {
			normal[c][v] = float32((float64(v)/255 - t.Mean[c]) / t.Std[c])
		}
	}
	values = make([]float32, 0, rows*columns*t.row())
	for i := range rows * columns {
		block, inside := i/(m*m), i%(m*m)
		y0, x0 := (block/(columns/m)*m+inside/m)*p, (block%(columns/m)*m+inside%m)*p
		for c := range 3 {
			frame := len(values)
			for y := y0; y < y0+p; y++ {
				for x := x0; x < x0+p; x++ {
					values = append(values, normal[c][uint8(small[3*(y*wide+x)+c])])
				}
			}
			one := values[frame:]
			for range t.Frames - 1 {
				values = append(values, one...)
			}
		}
	}
	return values, rows, columns, nil
}

// takesImage reports whether the model has a method for the resized image of a grid.
func (t *spec) takesImage(rows, columns int) bool {
	return t.ImageMethod != "" && max(rows, columns) <= t.MaxSide*t.Merge
}

// resized returns an image resized to a grid: lines of pixels of three values from 0 to 255.
func (t *spec) resized(img image.Image, rows, columns int) []float32 {
	w, h := img.Bounds().Dx(), img.Bounds().Dy()
	return imaging.Resize(w, h, 3, imaging.Bicubic(w, columns*t.Patch, true), imaging.Bicubic(h, rows*t.Patch, true),
		true, imaging.RGBRow(img))
}

// row returns the number of values of a patch.
func (t *spec) row() int { return 3 * t.Frames * t.Patch * t.Patch }
