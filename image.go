package rlx

import (
	"image"
	"io"

	"github.com/rlx-go/rlx/core/task/imaging"
)

// DecodeImage reads a PNG or JPEG of at most 2^28 pixels, turned as its EXIF orientation says it is displayed. What its header claims
// is checked before its pixels are allocated.
func DecodeImage(r io.Reader) (image.Image, error) {
	return imaging.Decode("image", r, imaging.Limits{})
}
