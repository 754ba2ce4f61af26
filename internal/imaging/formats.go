package imaging

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/image/bmp"
	"golang.org/x/image/tiff"
	"golang.org/x/image/webp"
)

// Formats names the formats that Decode reads, for texts.
const Formats = "PNG, JPEG, WebP, TIFF and BMP"

// Extensions lists how the names of such files end.
var Extensions = []string{".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".bmp"}

// Named reports whether the name of a file has the extension of an image that Decode reads, such as photo.JPG.
func Named(path string) bool { return slices.Contains(Extensions, strings.ToLower(filepath.Ext(path))) }

// A format is a kind of image file.
type format struct {
	is     func(start []byte) bool // whether a file begins so; start has up to signature bytes
	config func(io.Reader) (image.Config, error)
	decode func(io.Reader) (image.Image, error)
	// bytes returns the number of bytes of the decoded pixels, the peak while they are decoded and turned, and the
	// orientation as far as header says. header has all bytes that config read, or the whole file if it is buffered.
	bytes func(cfg image.Config, header []byte) (pixels, peak int64, orientation int)
	check func(file []byte) error // of a buffered file; refuses forms that decode gets wrong
	// buffered is set if the whole file must be in memory. It then has at most maxBuffered bytes.
	buffered bool
	// dense is set if no byte of a file can stand for more than maxPixelsPerByte pixels.
	dense bool
	png   bool // whether the orientation may follow the pixels, in a chunk
}

const (
	signature   = 12 // bytes that tell a format
	maxBuffered = 256 << 20
)

var formats = []format{
	{is: begins("\x89PNG\r\n\x1a\n"), config: png.DecodeConfig, decode: png.Decode, bytes: pngBytes, dense: true,
		png: true},
	{is: begins("\xff\xd8"), config: jpeg.DecodeConfig, decode: jpeg.Decode, bytes: jpegBytes, dense: true},
	{is: func(b []byte) bool { return len(b) >= 12 && string(b[:4]) == "RIFF" && string(b[8:12]) == "WEBP" },
		config: webp.DecodeConfig, decode: decodeWebP, bytes: webpBytes, check: noAnimation,
		buffered: true},
	{is: begins("II*\x00", "MM\x00*"), config: tiff.DecodeConfig, decode: tiff.Decode, bytes: tiffBytes,
		check: noInvertedFax, buffered: true},
	{is: begins("BM"), config: bmp.DecodeConfig, decode: bmp.Decode, bytes: bmpBytes, dense: true},
}

func begins(with ...string) func([]byte) bool {
	return func(b []byte) bool {
		return slices.ContainsFunc(with, func(s string) bool { return bytes.HasPrefix(b, []byte(s)) })
	}
}

// safely calls decode. The decoders of WebP, TIFF and BMP are not part of Go's library; a panic in one of them means
// that the file is damaged in a way that the decoder did not expect.
func safely[T any](decode func(io.Reader) (T, error), r io.Reader) (v T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the decoder failed: %v", p)
		}
	}()
	return decode(r)
}

// rest reads the rest of a file into b, which holds its beginning. size is the size of the file, if known. fits is
// called before memory is allocated.
func rest(in io.Reader, b *bytes.Buffer, size int64, fits func(int64) error) error {
	for room := max(size, 1<<20); ; room *= 2 {
		room = min(room, maxBuffered)
		if err := fits(room); err != nil {
			return err
		}
		b.Grow(int(room) + bytes.MinRead - b.Len())
		_, err := b.ReadFrom(io.LimitReader(in, room+1-int64(b.Len())))
		switch {
		case err != nil || int64(b.Len()) <= room: // the end
			return err
		case room == maxBuffered:
			return fmt.Errorf("has more than %d bytes, the limit for WebP and TIFF", maxBuffered)
		}
	}
}

// webpBytes: a lossy file is decoded to planes of whole blocks of 16 x 16, and then to NRGBA. A lossless one, and the
// alpha plane of a lossy one, is decoded to NRGBA, twice if it is transformed, with maps of its blocks. All of it
// counts, because garbage is collected late.
func webpBytes(cfg image.Config, data []byte) (pixels, peak int64, orientation int) {
	w, h := int64(cfg.Width), int64(cfg.Height)
	planes := (w + 15) / 16 * ((h + 15) / 16) * (16*16 + 2*8*8)
	pixels, peak, orientation = 4*w*h, 13*w*h+planes, 1
	chunks(data, func(kind string, body []byte) {
		if kind == "EXIF" {
			orientation = tiffOrientation(bytes.TrimPrefix(body, []byte(exifPrefix)))
		}
	})
	if orientation > 1 {
		peak = max(peak, pixels+turnBytes*w*h)
	}
	return pixels, peak, orientation
}

// chunks calls each for the chunks of a RIFF file, up to the first that is cut short.
func chunks(data []byte, each func(kind string, body []byte)) {
	const head = 8
	for data = data[min(signature, len(data)):]; len(data) >= head; {
		kind, n := string(data[:4]), int64(binary.LittleEndian.Uint32(data[4:]))
		if n > int64(len(data)-head) {
			return
		}
		each(kind, data[head:][:n])
		data = data[min(head+n+n%2, int64(len(data))):]
	}
}

// noAnimation refuses an animated WebP. The first chunk, VP8X, says whether it is animated.
func noAnimation(data []byte) error {
	const flags, animation = signature + 8, 2
	if len(data) > flags && string(data[signature:][:4]) == "VP8X" && data[flags]&animation != 0 {
		return unsupported("it is an animation; allowed are still images")
	}
	return nil
}

// decodeWebP returns a lossy image in RGB. Its luma and chroma have the range of video (ITU-R BT.601, 16 to 235 and 16
// to 240), but image.YCbCr has the range of JPEG.
func decodeWebP(r io.Reader) (image.Image, error) {
	img, err := webp.Decode(r)
	switch m := img.(type) {
	case *image.YCbCr:
		return fromVideo(m, nil), err
	case *image.NYCbCrA:
		return fromVideo(&m.YCbCr, func(x, y int) uint8 { return m.A[m.AOffset(x, y)] }), err
	}
	return img, err
}

// fromVideo converts luma and chroma of BT.601 to RGB. The factors have 16 binary places.
func fromVideo(m *image.YCbCr, alpha func(x, y int) uint8) *image.NRGBA {
	b := m.Bounds()
	out := image.NewNRGBA(image.Rect(0, 0, b.Dx(), b.Dy()))
	clamp := func(v int32) uint8 { return uint8(min(max((v+1<<15)>>16, 0), 255)) }
	for y := range b.Dy() {
		row := out.Pix[y*out.Stride:][:4*b.Dx()]
		for x := range b.Dx() {
			luma, chroma := m.YOffset(b.Min.X+x, b.Min.Y+y), m.COffset(b.Min.X+x, b.Min.Y+y)
			l := 76309 * (int32(m.Y[luma]) - 16)
			u, v := int32(m.Cb[chroma])-128, int32(m.Cr[chroma])-128
			p := row[4*x:][:4]
			p[0], p[1], p[2], p[3] = clamp(l+104597*v), clamp(l-25675*u-53279*v), clamp(l+132201*u), 255
			if alpha != nil {
				p[3] = alpha(b.Min.X+x, b.Min.Y+y)
			}
		}
	}
	return out
}

// tiffBytes: image/tiff decodes one strip or tile after another, which may be the whole image with 8 bytes a pixel,
// into a buffer that grows to twice its size. In no compression of TIFF does one byte stand for more than 2800 bytes.
func tiffBytes(cfg image.Config, data []byte) (pixels, peak int64, orientation int) {
	w, h := int64(cfg.Width), int64(cfg.Height)
	pixels = pixelBytes(cfg)
	const tile = 1024 * 1024 // a tile may be larger than a small image
	peak = pixels + 3*min(8*max(w*h, tile), 2800*int64(len(data)))
	if orientation = tiffOrientation(data); orientation > 1 {
		peak = max(peak, pixels+turnBytes*w*h)
	}
	return pixels, peak, orientation
}

// noInvertedFax refuses a TIFF of which image/tiff would make a negative.
func noInvertedFax(data []byte) error {
	const compression, photometric = 259, 262
	if c := tiffShort(data, compression); c >= 2 && c <= 4 && tiffShort(data, photometric) == 1 {
		return unsupported("it is an inverted fax")
	}
	return nil
}

func bmpBytes(cfg image.Config, _ []byte) (pixels, peak int64, orientation int) {
	pixels = pixelBytes(cfg)
	return pixels, pixels + 4*int64(cfg.Width), 1
}

// unsupported is the error for a file that a decoder does not support.
type unsupported string

func (u unsupported) Error() string { return string(u) }

// unreadable describes why the decoder refused a file: it is damaged, or uses a feature that the decoder lacks, such as
// 12-bit samples. It replaces the bare "unexpected EOF" of a truncated file.
func unreadable(err error) error {
	if lacks[png.UnsupportedError](err) || lacks[jpeg.UnsupportedError](err) || lacks[tiff.UnsupportedError](err) ||
		lacks[unsupported](err) || errors.Is(err, bmp.ErrUnsupported) {
		return fmt.Errorf("has a form that is not supported: %w", err)
	}
	return fmt.Errorf("is damaged: %w", whole(err))
}

func lacks[E error](err error) bool { _, ok := errors.AsType[E](err); return ok }

func whole(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return errors.New("it is cut short")
	}
	return err
}

// pngBytes: an interlaced image takes twice the memory of its pixels, because it is put together from seven smaller
// ones.
func pngBytes(cfg image.Config, header []byte) (pixels, peak int64, orientation int) {
	pixels = pixelBytes(cfg)
	const interlace = 28 // offset of IHDR's last byte
	if len(header) > interlace && header[interlace] != 0 {
		return pixels, 2 * pixels, 1
	}
	return pixels, pixels, 1
}

// pixelBytes returns the number of bytes of an image's pixels in memory, unless it has planes.
func pixelBytes(cfg image.Config) int64 {
	per := int64(4)
	switch cfg.ColorModel {
	case color.GrayModel:
		per = 1
	case color.Gray16Model:
		per = 2
	case color.RGBA64Model, color.NRGBA64Model:
		per = 8
	default:
		if _, ok := cfg.ColorModel.(color.Palette); ok {
			per = 1
		}
	}
	return per * int64(cfg.Width) * int64(cfg.Height)
}
