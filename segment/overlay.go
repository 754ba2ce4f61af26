package segment

import (
	"image"
	"image/color"
	"math"

	"github.com/rlx-go/rlx/internal/imaging"
)

// Colours of an overlay.
var (
	tint       = color.NRGBA{30, 144, 255, 255} // of the mask
	outline    = color.NRGBA{255, 255, 255, 255}
	foreground = color.NRGBA{40, 200, 80, 255}
	background = color.NRGBA{220, 50, 50, 255}
)

// Overlay draws mask, which has the size of the image, and the prompts over the image. The mask is tinted and outlined.
// Foreground points are green discs, background points red ones, and the box is a green frame.
func Overlay(img image.Image, mask *image.Gray, p Prompts) *image.NRGBA {
	out := imaging.NRGBA(img)
	w, h := out.Rect.Dx(), out.Rect.Dy()
	unit := max(1, float64(max(w, h))/400) // line width, proportional to the image
	in := func(x, y int) bool { return x >= 0 && y >= 0 && x < w && y < h && mask.Pix[y*mask.Stride+x] != 0 }
	reach := int(math.Ceil(unit)) // width of the outline, which lies inside the mask
	for y := range h {
		for x := range w {
			if !in(x, y) {
				continue
			}
			if !in(x-reach, y) || !in(x+reach, y) || !in(x, y-reach) || !in(x, y+reach) {
				blend(out, x, y, outline, 1)
			} else {
				blend(out, x, y, tint, 0.5)
			}
		}
	}
	if b := p.Box; b != nil {
		half := unit / 2
		for _, r := range [][4]float64{
			{b.X0, b.Y0, b.X1, b.Y0}, {b.X0, b.Y1, b.X1, b.Y1}, {b.X0, b.Y0, b.X0, b.Y1}, {b.X1, b.Y0, b.X1, b.Y1},
		} {
			fill(out, r[0]-half, r[1]-half, r[2]+half, r[3]+half, foreground)
		}
	}
	for _, pt := range p.Points {
		c := background
		if pt.Foreground {
			c = foreground
		}
		disc(out, pt.X, pt.Y, 4*unit, outline)
		disc(out, pt.X, pt.Y, 3*unit, c)
	}
	return out
}

// blend mixes c into a pixel with weight a.
func blend(img *image.NRGBA, x, y int, c color.NRGBA, a float64) {
	p := img.Pix[y*img.Stride+4*x:][:3]
	for i, v := range [3]uint8{c.R, c.G, c.B} {
		p[i] = uint8(float64(p[i])*(1-a) + float64(v)*a + 0.5)
	}
}

// span calls each for the pixels whose centres lie in a rectangle.
func span(img *image.NRGBA, x0, y0, x1, y1 float64, each func(x, y int)) {
	w, h := img.Rect.Dx(), img.Rect.Dy()
	for y := max(0, int(math.Ceil(y0-0.5))); y < h && float64(y)+0.5 <= y1; y++ {
		for x := max(0, int(math.Ceil(x0-0.5))); x < w && float64(x)+0.5 <= x1; x++ {
			each(x, y)
		}
	}
}

func fill(img *image.NRGBA, x0, y0, x1, y1 float64, c color.NRGBA) {
	span(img, x0, y0, x1, y1, func(x, y int) { blend(img, x, y, c, 1) })
}

// disc draws a filled circle with a soft edge one pixel wide.
func disc(img *image.NRGBA, cx, cy, r float64, c color.NRGBA) {
	span(img, cx-r-1, cy-r-1, cx+r+1, cy+r+1, func(x, y int) {
		d := math.Hypot(float64(x)+0.5-cx, float64(y)+0.5-cy)
		if a := min(1, r+0.5-d); a > 0 {
			blend(img, x, y, c, a)
		}
	})
}
