package segment

import (
	"image"
	"image/color"

	"github.com/rlx-go/rlx/internal/imaging"
)

// Palette returns the 256 colours of label images. Label 0 is black. Label i from 1 on has the hue 40503 i mod 65536,
// where 65536 is the whole circle and 0 is red. The hues step by the golden ratio, so that neighbours differ.
// Saturation and value, of 255, repeat every four labels: 230 and 255, 140 and 255, 255 and 190, 170 and 220.
func Palette() color.Palette {
	out := color.Palette{color.NRGBA{A: 255}}
	tones := [4][2]int{{230, 255}, {140, 255}, {255, 190}, {170, 220}}
	for i := 1; i < 256; i++ {
		tone := tones[(i-1)%4]
		out = append(out, hsv(40503*i%65536, tone[0], tone[1]))
	}
	return out
}

// hsv returns the colour of a hue below 65536, and of a saturation and a value up to 255.
func hsv(hue, saturation, value int) color.NRGBA {
	sixth, part := hue*6/65536, hue*6%65536*255/65536
	low := value * (255 - saturation) / 255
	down, up := value*(255*255-saturation*part)/(255*255), value*(255*255-saturation*(255-part))/(255*255)
	c := [6][3]int{{value, up, low}, {down, value, low}, {low, value, up}, {low, down, value}, {up, low, value},
		{value, low, down}}[sixth]
	return color.NRGBA{uint8(c[0]), uint8(c[1]), uint8(c[2]), 255}
}

// Picture returns the label image for people and programs to read. With up to 255 regions it is an image whose indices
// are the labels and whose colours are those of Palette. With more regions it has the 16-bit labels themselves.
func (s *Segmentation) Picture() image.Image { return picture(s.Labels, len(s.Regions)) }

// picture is Picture for labels of up to n.
func picture(labels *image.Gray16, n int) image.Image {
	if n > 255 {
		return labels
	}
	out := image.NewPaletted(labels.Rect, Palette())
	for y := range out.Rect.Dy() {
		for x := range out.Rect.Dx() {
			out.Pix[y*out.Stride+x] = labels.Pix[y*labels.Stride+2*x+1] // the lower byte
		}
	}
	return out
}

// Overlay draws the regions over the image, each tinted and outlined in the colour that Palette has for its label. From
// label 256 on, the colours repeat from that of label 1.
func (s *Segmentation) Overlay(img image.Image) *image.NRGBA { return overlay(img, s.Labels) }

// overlay draws the objects of a label image over the image.
func overlay(img image.Image, labels *image.Gray16) *image.NRGBA {
	out, palette := imaging.NRGBA(img), Palette()
	w, h := out.Rect.Dx(), out.Rect.Dy()
	reach := max(1, max(w, h)/400) // width of an outline
	at := func(x, y int) int {
		if x < 0 || y < 0 || x >= w || y >= h {
			return -1
		}
		p := labels.Pix[y*labels.Stride+2*x:]
		return int(p[0])<<8 | int(p[1])
	}
	for y := range h {
		for x := range w {
			label := at(x, y)
			if label == 0 {
				continue
			}
			a := 0.45
			if at(x-reach, y) != label || at(x+reach, y) != label || at(x, y-reach) != label ||
				at(x, y+reach) != label {
				a = 1
			}
			blend(out, x, y, palette[(label-1)%255+1].(color.NRGBA), a)
		}
	}
	return out
}
