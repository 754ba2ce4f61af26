package rlx

import (
	"image"
	"io"

	"github.com/rlx-go/rlx/task/imaging"
)

// DecodeImage reads a PNG or JPEG of at most 2^28 pixels and applies its EXIF orientation. It checks the sizes in the header before
// it allocates pixels.
func DecodeImage(r io.Reader) (image.Image, error) {
	return imaging.Decode("image", r, imaging.Limits{})
}
