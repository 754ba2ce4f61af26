package task

import (
	"bytes"
	"errors"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"io/fs"

	"github.com/rlx-go/rlx/core/diag"
)

const (
	maxPixels = 1 << 28
	maxSide   = 1 << 20 // a resize keeps a few words for each position along a side
	maxFile   = 1 << 30 // bytes
	// maxPixelsPerByte is above what any PNG (1 bit a pixel, deflate at 1032:1) can reach: a file that claims more than
	// this cannot hold its pixels, and is refused before they are allocated.
	maxPixelsPerByte = 8 * 1040
)

// DecodeImage reads a PNG or JPEG of at most 2^28 pixels, turned the way its EXIF orientation says it is displayed. name is
// what errors call it. Errors are *diag.Error with CodeImage.
func DecodeImage(name string, r io.Reader) (image.Image, error) {
	bad := func(format string, args ...any) (image.Image, error) {
		return nil, diag.New(CodeImage, name, format, args...)
	}
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err // the subject names the path already
		}
		return bad("cannot be read: %w", err)
	}
	if len(data) > maxFile {
		return bad("has more than %d bytes", maxFile)
	}
	var decodeConfig func(io.Reader) (image.Config, error)
	var decode func(io.Reader) (image.Image, error)
	switch {
	case bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")):
		decodeConfig, decode = png.DecodeConfig, png.Decode
	case bytes.HasPrefix(data, []byte("\xff\xd8")):
		decodeConfig, decode = jpeg.DecodeConfig, jpeg.Decode
	default:
		return bad("is not an image that can be read; allowed are PNG and JPEG")
	}
	cfg, err := decodeConfig(bytes.NewReader(data))
	if err != nil {
		return bad("is damaged: %w", whole(err))
	}
	w, h := int64(cfg.Width), int64(cfg.Height)
	if w < 1 || h < 1 || w > maxSide || h > maxSide || w*h > maxPixels || w*h > int64(len(data))*maxPixelsPerByte {
		return bad("claims %d x %d pixels in a file of %d bytes; the limits are 2^28 pixels, %d a side and %d for each byte", w, h, len(data), maxSide, maxPixelsPerByte)
	}
	img, err := decode(bytes.NewReader(data))
	if err != nil {
		return bad("is damaged: %w", whole(err))
	}
	return orient(img, exifOrientation(data)), nil
}

// whole replaces the bare "unexpected EOF" of a truncated file.
func whole(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return errors.New("it is cut short")
	}
	return err
}

// rgbRow gives a function that reads row y as interleaved R, G, B on the 0..255 scale; 16-bit samples keep their
// fractions. Transparency is dropped, not blended: colours are the stored ones, as in PIL's convert("RGB").
func rgbRow(img image.Image) func(y int, dst []float32) {
	b := img.Bounds()
	switch m := img.(type) {
	case *image.RGBA: // how PNG without transparency arrives: alpha is 255 everywhere
		if m.Opaque() {
			return func(y int, dst []float32) { rgb8(dst, m.Pix[m.PixOffset(b.Min.X, b.Min.Y+y):]) }
		}
	case *image.NRGBA:
		return func(y int, dst []float32) { rgb8(dst, m.Pix[m.PixOffset(b.Min.X, b.Min.Y+y):]) }
	case *image.Gray:
		return func(y int, dst []float32) {
			for x, v := range m.Pix[m.PixOffset(b.Min.X, b.Min.Y+y):][:b.Dx()] {
				dst[3*x], dst[3*x+1], dst[3*x+2] = float32(v), float32(v), float32(v)
			}
		}
	case *image.YCbCr:
		return func(y int, dst []float32) {
			for x := range b.Dx() {
				c := m.YCbCrAt(b.Min.X+x, b.Min.Y+y)
				r, g, bl := color.YCbCrToRGB(c.Y, c.Cb, c.Cr)
				dst[3*x], dst[3*x+1], dst[3*x+2] = float32(r), float32(g), float32(bl)
			}
		}
	}
	return func(y int, dst []float32) {
		for x := range b.Dx() {
			c := straight(img.At(b.Min.X+x, b.Min.Y+y))
			dst[3*x], dst[3*x+1], dst[3*x+2] = float32(c.R)/257, float32(c.G)/257, float32(c.B)/257
		}
	}
}

func rgb8(dst []float32, pix []byte) {
	for i, j := 0, 0; i+2 < len(dst); i, j = i+3, j+4 {
		p := pix[j : j+4 : j+4]
		dst[i], dst[i+1], dst[i+2] = float32(p[0]), float32(p[1]), float32(p[2])
	}
}

// straight is c without premultiplication. color.NRGBA64Model would lose the colour under alpha 0.
func straight(c color.Color) color.NRGBA64 {
	switch c := c.(type) {
	case color.NRGBA:
		return color.NRGBA64{uint16(c.R) * 257, uint16(c.G) * 257, uint16(c.B) * 257, uint16(c.A) * 257}
	case color.NRGBA64:
		return c
	}
	return color.NRGBA64Model.Convert(c).(color.NRGBA64)
}

// toNRGBA copies img as opaque 8-bit RGB with its upper left corner at (0,0).
func toNRGBA(img image.Image) *image.NRGBA {
	w, h := img.Bounds().Dx(), img.Bounds().Dy()
	out := image.NewNRGBA(image.Rect(0, 0, w, h))
	row, buf := rgbRow(img), make([]float32, 3*w)
	for y := range h {
		row(y, buf)
		for x := range w {
			p := out.Pix[y*out.Stride+4*x:][:4]
			for c := range 3 {
				p[c] = uint8(buf[3*x+c] + 0.5)
			}
			p[3] = 255
		}
	}
	return out
}
