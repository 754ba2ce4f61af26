package main

import (
	"fmt"
	"image"
	_ "image/png" // masks are PNG files
	"os"
)

// maskIoU returns the intersection over union of two mask images. A pixel belongs to a mask if its value is more than
// half the maximum.
func maskIoU(a, b string) (float64, error) {
	x, err := readImage(a)
	if err != nil {
		return 0, err
	}
	y, err := readImage(b)
	if err != nil {
		return 0, err
	}
	if x.Bounds() != y.Bounds() {
		return 0, fmt.Errorf("%s has bounds %v, %s has %v; want equal sizes", a, x.Bounds(), b, y.Bounds())
	}
	var both, any float64
	for py := x.Bounds().Min.Y; py < x.Bounds().Max.Y; py++ {
		for px := x.Bounds().Min.X; px < x.Bounds().Max.X; px++ {
			p, _, _, _ := x.At(px, py).RGBA()
			q, _, _, _ := y.At(px, py).RGBA()
			if p > 0x7fff || q > 0x7fff {
				any++
			}
			if p > 0x7fff && q > 0x7fff {
				both++
			}
		}
	}
	return both / max(any, 1), nil
}

func readImage(path string) (image.Image, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	img, _, err := image.Decode(f)
	return img, err
}
