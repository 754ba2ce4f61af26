// Package imaging decodes images upright, reads their pixels as RGB, and resizes them for tasks such as segmentation.
package imaging

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"io"
	"io/fs"
	"slices"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
)

// MaxFile is the size of the largest file of an image, in bytes.
const MaxFile = 1 << 30

const (
	maxPixels  = 1 << 28
	maxDecoded = 1 << 30  // bytes of the pixels in memory
	maxSide    = 1 << 20  // a resize stores a few words for each position along a side
	maxHeader  = 32 << 20 // bytes before the size of the image, such as colour profiles
	// maxPixelsPerByte exceeds what any PNG, JPEG or BMP can reach (1 bit a pixel, deflate at 1032:1). A file that
	// claims more pixels cannot contain them, and is refused before memory is allocated.
	maxPixelsPerByte = 8 * 1040
)

// Limits bounds the images that Decode accepts, in addition to the limits of the package. The zero value adds no
// limits.
type Limits struct {
	FileSize int64 // size of the file in bytes, if known
	Pixels   int64 // number of pixels; 0 means 2^28
	// Fits, if not nil, is called with the peak number of bytes that decoding needs, before pixels are allocated. If a
	// file must be in memory, it is called with the bytes of the file before that. If a PNG must be turned, which may
	// show only at its end, it is called again with the additional bytes. Decode returns its error.
	Fits func(bytes int64) error
}

// Decode reads an image of one of Formats, of at most 2^28 pixels and 1 GiB of decoded pixels, and turns it upright as
// its EXIF orientation says. It checks the size in the header first. It decodes PNG, JPEG and BMP while it reads, and
// holds the file of a WebP or TIFF, of at most 256 MiB, in memory. Errors are *diag.Error with code.Image and subject
// name, or come from Fits.
func Decode(name string, r io.Reader, lim Limits) (image.Image, error) {
	in := &source{r: r, left: MaxFile}
	bad := func(format string, args ...any) (image.Image, error) {
		if in.err != nil { // the read error is more precise than the decoder's
			return nil, diag.New(code.Image, name, "%w", in.err)
		}
		return nil, diag.New(code.Image, name, format, args...)
	}
	var refused error // of Fits
	fits := func(bytes int64) error {
		if lim.Fits != nil {
			refused = lim.Fits(bytes)
		}
		return refused
	}
	var header bytes.Buffer // the bytes up to the size of the image
	head := io.TeeReader(io.LimitReader(in, maxHeader), &header)
	start := make([]byte, signature)
	n, _ := io.ReadFull(head, start)
	i := slices.IndexFunc(formats, func(f format) bool { return f.is(start[:n]) })
	if i < 0 {
		return bad("is not an image that can be read; allowed are " + Formats)
	}
	f := &formats[i]
	known := io.MultiReader(bytes.NewReader(start[:n]), head)
	if f.buffered {
		if err := rest(in, &header, lim.FileSize, fits); refused != nil {
			return nil, refused
		} else if err != nil {
			return bad("%w", err)
		}
		if err := f.check(header.Bytes()); err != nil {
			return bad("%w", unreadable(err))
		}
		known = bytes.NewReader(header.Bytes())
	}
	cfg, err := safely(f.config, known)
	if err != nil {
		if header.Len() == maxHeader {
			return bad("does not say its size within %d bytes", maxHeader)
		}
		return bad("%w", unreadable(err))
	}
	w, h := int64(cfg.Width), int64(cfg.Height)
	if err := checkSize(f, w, h, lim); err != nil {
		return bad("%w", err)
	}
	pixels, peak, orientation := f.bytes(cfg, header.Bytes())
	if pixels > maxDecoded {
		return bad("claims %d x %d pixels, which take %d bytes in memory; the limit is %d", w, h, pixels, maxDecoded)
	}
	if err := fits(peak); err != nil {
		return nil, err
	}
	all, later := io.Reader(bytes.NewReader(header.Bytes())), newPNGOrientation()
	if !f.buffered {
		all = io.MultiReader(all, in)
	}
	if f.png {
		all = io.TeeReader(all, later)
	}
	img, err := safely(f.decode, all)
	if err != nil {
		return bad("%w", unreadable(err))
	}
	if later.value > 1 {
		orientation = later.value
		if more := pixels + turnBytes*w*h - peak; more > 0 {
			if err := fits(more); err != nil {
				return nil, err
			}
		}
	}
	return orient(img, orientation), nil
}

// checkSize checks the size that a file of a format claims.
func checkSize(f *format, w, h int64, lim Limits) error {
	if w < 1 || h < 1 || w > maxSide || h > maxSide || w*h > maxPixels {
		return fmt.Errorf("claims %d x %d pixels; the limits are 2^28 pixels and %d a side", w, h, maxSide)
	}
	if lim.Pixels > 0 && w*h > lim.Pixels {
		return fmt.Errorf("has %d x %d pixels; %d are allowed here", w, h, lim.Pixels)
	}
	if f.dense && lim.FileSize > 0 && w*h > lim.FileSize*maxPixelsPerByte {
		return fmt.Errorf("claims %d x %d pixels in a file of %d bytes; the limit is %d pixels for each byte", w, h,
			lim.FileSize, maxPixelsPerByte)
	}
	return nil
}

// A source reads at most left bytes and keeps the first error other than io.EOF.
type source struct {
	r    io.Reader
	left int64
	err  error
}

func (s *source) Read(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	if s.left == 0 {
		s.err = fmt.Errorf("has more than %d bytes", MaxFile)
		return 0, s.err
	}
	n, err := s.r.Read(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	if err != nil && err != io.EOF {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err // the subject has the path already
		}
		s.err = fmt.Errorf("cannot be read: %w", err)
	}
	return n, err
}

// RGBRow returns a function that reads row y as interleaved R, G, B from 0 to 255. 16-bit samples keep their fractions.
// Transparency is dropped, not blended, as by PIL's convert("RGB").
func RGBRow(img image.Image) func(y int, dst []float32) {
	b := img.Bounds()
	switch m := img.(type) {
	case *image.RGBA: // from a PNG without transparency: alpha is 255 everywhere
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

// straight returns c without premultiplied alpha. color.NRGBA64Model would lose the colour of pixels with alpha 0.
func straight(c color.Color) color.NRGBA64 {
	switch c := c.(type) {
	case color.NRGBA:
		return color.NRGBA64{uint16(c.R) * 257, uint16(c.G) * 257, uint16(c.B) * 257, uint16(c.A) * 257}
	case color.NRGBA64:
		return c
	}
	return color.NRGBA64Model.Convert(c).(color.NRGBA64)
}

// NRGBA returns a copy of img as opaque 8-bit RGB with its upper left corner at (0,0).
func NRGBA(img image.Image) *image.NRGBA {
	w, h := img.Bounds().Dx(), img.Bounds().Dy()
	out := image.NewNRGBA(image.Rect(0, 0, w, h))
	row, buf := RGBRow(img), make([]float32, 3*w)
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
