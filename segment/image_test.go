package segment_test

import (
	"image"
	"image/color"
	"os"

	"github.com/rlx-go/rlx/segment"
)

// sameImage reports whether two files have the same pixels.
func sameImage(a, b string) bool {
	x, y := mustDecode(a), mustDecode(b)
	if x.Bounds() != y.Bounds() {
		return false
	}
	for i := range x.Bounds().Dx() * x.Bounds().Dy() {
		px, py := i%x.Bounds().Dx(), i/x.Bounds().Dx()
		if color.NRGBAModel.Convert(x.At(px, py)) != color.NRGBAModel.Convert(y.At(px, py)) {
			return false
		}
	}
	return true
}

func mustDecode(path string) image.Image {
	f, err := os.Open(path)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	img, err := segment.DecodeImage(f)
	if err != nil {
		panic(err)
	}
	return img
}
