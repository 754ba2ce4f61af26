package imaging

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
)

// A frame holds what we need of the frame header of a JPEG (ITU T.81, section B.2.2).
type frame struct {
	progressive bool
	h, v        []int // sampling factors of the components
}

// exifPrefix precedes the TIFF structure in a JPEG. Some writers put it into PNGs, too, by mistake.
const exifPrefix = "Exif\x00\x00"

// jpegHeader reads the orientation tag and the frame header from the segments before the image data. The tag is in the
// first directory of the TIFF structure in segment APP1 (Exif 2.3, sections 4.5 and 4.6). orientation is 1 to 8;
// without a valid tag it is 1, upright.
func jpegHeader(data []byte) (orientation int, f frame) {
	orientation = 1
	if !bytes.HasPrefix(data, []byte("\xff\xd8")) {
		return orientation, f
	}
	seen := false
	for data = data[2:]; len(data) >= 4 && data[0] == 0xff && data[1] != 0xda; {
		if data[1] == 0xff { // fill byte
			data = data[1:]
			continue
		}
		marker, n := data[1], int(binary.BigEndian.Uint16(data[2:]))
		if n < 2 || n+2 > len(data) {
			break
		}
		switch body := data[4 : n+2]; {
		case marker == 0xe1 && !seen && bytes.HasPrefix(body, []byte(exifPrefix)):
			orientation, seen = tiffOrientation(body[len(exifPrefix):]), true
		case marker >= 0xc0 && marker <= 0xc2 && len(body) >= 6 && len(body) >= 6+3*int(body[5]):
			f.progressive = marker == 0xc2
			for i := range int(body[5]) {
				hv := body[6+3*i+1]
				f.h, f.v = append(f.h, int(hv>>4)), append(f.v, int(hv&15))
			}
		}
		data = data[n+2:]
	}
	return orientation, f
}

// jpegBytes returns the number of bytes that image/jpeg allocates for the pixels, and the peak while it decodes and we
// turn the image. A sample takes one byte, and four more in a progressive file, whose coefficients are kept to the end.
// Turning takes turnBytes a pixel.
func jpegBytes(cfg image.Config, header []byte) (pixels, peak int64, orientation int) {
	orientation, f := jpegHeader(header)
	w, h := int64(cfg.Width), int64(cfg.Height)
	if len(f.h) == 1 {
		f.h, f.v = []int{1}, []int{1} // a single component is never subsampled, whatever its factors are
	}
	if len(f.h) > 0 && f.h[0] > 0 && f.v[0] > 0 {
		across, down := (w+8*int64(f.h[0])-1)/(8*int64(f.h[0])), (h+8*int64(f.v[0])-1)/(8*int64(f.v[0]))
		for i := range f.h {
			pixels += across * down * int64(f.h[i]*f.v[i]) * 64
		}
	}
	coefficients := int64(0)
	if f.progressive {
		coefficients = 4 * pixels
	}
	if cfg.ColorModel == color.RGBAModel || cfg.ColorModel == color.CMYKModel {
		pixels += 4 * w * h // converted from planes
	}
	peak = pixels + coefficients
	if orientation > 1 {
		peak = max(peak, pixels+turnBytes*w*h)
	}
	return pixels, peak, orientation
}

// A pngOrientation parses the chunks of a PNG while it is read, to find the orientation in chunk eXIf (PNG, third
// edition, section 11.3.5.3). The chunk may come after the pixels.
type pngOrientation struct {
	value int    // 1 to 8, or 0 before the chunk was found
	chunk []byte // header of the current chunk: length and type. For an eXIf chunk the data follow.
	want  int    // bytes that chunk must have before it can be parsed
	skip  int64  // bytes to skip before the next chunk
}

const (
	pngSignature, pngHead, pngChecksum = 8, 8, 4
	maxExif                            = 1 << 16 // bytes read of an eXIf chunk; a segment of a JPEG has no more
)

func newPNGOrientation() *pngOrientation { return &pngOrientation{want: pngHead, skip: pngSignature} }

func (p *pngOrientation) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		if p.skip > 0 {
			n := min(p.skip, int64(len(rest)))
			p.skip, rest = p.skip-n, rest[n:]
			continue
		}
		n := min(p.want-len(p.chunk), len(rest))
		p.chunk, rest = append(p.chunk, rest[:n]...), rest[n:]
		if len(p.chunk) < p.want {
			break
		}
		length, data := int64(binary.BigEndian.Uint32(p.chunk)), p.want-pngHead
		if data == 0 && length > 0 && string(p.chunk[4:]) == "eXIf" {
			p.want += int(min(length, maxExif))
			continue
		}
		if data > 0 {
			p.value = tiffOrientation(bytes.TrimPrefix(p.chunk[pngHead:], []byte(exifPrefix)))
		}
		p.skip = length - int64(data) + pngChecksum
		p.chunk, p.want = p.chunk[:0], pngHead
	}
	return len(b), nil
}

// tiffOrientation returns the orientation in a TIFF structure, 1 to 8. Without an orientation, it returns 1.
func tiffOrientation(tiff []byte) int {
	if v := tiffShort(tiff, 0x0112); v >= 1 && v <= 8 {
		return v
	}
	return 1
}

// tiffShort returns the first value of a tag in the first directory of a TIFF structure. It returns 0 if the tag is
// missing or its type is not SHORT.
func tiffShort(tiff []byte, tag uint16) int {
	var order binary.ByteOrder = binary.LittleEndian
	switch {
	case bytes.HasPrefix(tiff, []byte("MM\x00*")):
		order = binary.BigEndian
	case !bytes.HasPrefix(tiff, []byte("II*\x00")):
		return 0
	}
	if len(tiff) < 8 {
		return 0
	}
	at := uint64(order.Uint32(tiff[4:]))
	if at+2 > uint64(len(tiff)) {
		return 0
	}
	entries := tiff[at+2:]
	for range order.Uint16(tiff[at:]) {
		if len(entries) < 12 {
			return 0
		}
		const short = 3
		if order.Uint16(entries) == tag && order.Uint16(entries[2:]) == short {
			return int(order.Uint16(entries[8:]))
		}
		entries = entries[12:]
	}
	return 0
}

// turnBytes is the number of bytes that orient allocates per pixel.
const turnBytes = 8

// orient turns img upright. orientation is the value of the EXIF tag.
func orient(img image.Image, orientation int) image.Image {
	if orientation <= 1 || orientation > 8 {
		return img
	}
	src := NRGBA(img)
	w, h := src.Rect.Dx(), src.Rect.Dy()
	outW, outH := w, h
	if orientation >= 5 {
		outW, outH = h, w
	}
	out := image.NewNRGBA(image.Rect(0, 0, outW, outH))
	for y := range h {
		for x := range w {
			ox, oy := x, y
			switch orientation {
			case 2:
				ox = w - 1 - x
			case 3:
				ox, oy = w-1-x, h-1-y
			case 4:
				oy = h - 1 - y
			case 5:
				ox, oy = y, x
			case 6:
				ox, oy = h-1-y, x
			case 7:
				ox, oy = h-1-y, w-1-x
			case 8:
				ox, oy = y, w-1-x
			}
			copy(out.Pix[oy*out.Stride+4*ox:][:4], src.Pix[y*src.Stride+4*x:][:4])
		}
	}
	return out
}
