package task

import (
	"bytes"
	"encoding/binary"
	"image"
)

// exifOrientation is the orientation tag (1 to 8) of a JPEG; 1, upright, for anything without a valid one. The tag sits in
// the first directory of the TIFF structure in the APP1 segment (Exif 2.3, sections 4.5 and 4.6).
func exifOrientation(data []byte) int {
	if !bytes.HasPrefix(data, []byte("\xff\xd8")) {
		return 1
	}
	for data = data[2:]; len(data) >= 4 && data[0] == 0xff && data[1] != 0xda; {
		if data[1] == 0xff { // fill byte
			data = data[1:]
			continue
		}
		marker, n := data[1], int(binary.BigEndian.Uint16(data[2:]))
		if n < 2 || n+2 > len(data) {
			return 1
		}
		if body := data[4 : n+2]; marker == 0xe1 && bytes.HasPrefix(body, []byte("Exif\x00\x00")) {
			return tiffOrientation(body[6:])
		}
		data = data[n+2:]
	}
	return 1
}

func tiffOrientation(tiff []byte) int {
	var order binary.ByteOrder = binary.LittleEndian
	switch {
	case bytes.HasPrefix(tiff, []byte("MM\x00*")):
		order = binary.BigEndian
	case !bytes.HasPrefix(tiff, []byte("II*\x00")):
		return 1
	}
	if len(tiff) < 8 {
		return 1
	}
	at := uint64(order.Uint32(tiff[4:]))
	if at+2 > uint64(len(tiff)) {
		return 1
	}
	entries := tiff[at+2:]
	for range order.Uint16(tiff[at:]) {
		if len(entries) < 12 {
			return 1
		}
		const orientation, short = 0x0112, 3
		if order.Uint16(entries) == orientation && order.Uint16(entries[2:]) == short {
			if v := order.Uint16(entries[8:]); v >= 1 && v <= 8 {
				return int(v)
			}
			return 1
		}
		entries = entries[12:]
	}
	return 1
}

// orient turns img so that it is upright; orientation says where row 0 and column 0 of the stored image belong.
func orient(img image.Image, orientation int) image.Image {
	if orientation <= 1 || orientation > 8 {
		return img
	}
	src := toNRGBA(img)
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
