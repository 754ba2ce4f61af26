package imaging_test

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/imaging"
)

func decodePNG(t *testing.T, img image.Image) image.Image {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	out, err := imaging.Decode("x.png", &b, imaging.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// pixels returns the RGB values of an image, plane by plane.
func pixels(img image.Image) []float32 {
	w, h := img.Bounds().Dx(), img.Bounds().Dy()
	out, line, row := make([]float32, 3*w*h), make([]float32, 3*w), imaging.RGBRow(img)
	for y := range h {
		row(y, line)
		for i, v := range line {
			out[i%3*w*h+y*w+i/3] = v
		}
	}
	return out
}

// TestColours checks that every kind of PNG becomes the same RGB as by PIL's convert("RGB"): grey is repeated, palettes
// are looked up, transparency is dropped, and 16 bits become 8.
func TestColours(t *testing.T) {
	r := image.Rect(0, 0, 2, 1)
	gray := image.NewGray(r)
	gray.Pix = []byte{10, 250}
	gray16 := image.NewGray16(r)
	gray16.SetGray16(0, 0, color.Gray16{10 * 257})
	gray16.SetGray16(1, 0, color.Gray16{250 * 257})
	nrgba := image.NewNRGBA(r)
	nrgba.SetNRGBA(0, 0, color.NRGBA{10, 20, 30, 0})
	nrgba.SetNRGBA(1, 0, color.NRGBA{200, 100, 50, 128})
	wide := image.NewNRGBA64(r)
	wide.SetNRGBA64(0, 0, color.NRGBA64{10 * 257, 20 * 257, 30 * 257, 0})
	wide.SetNRGBA64(1, 0, color.NRGBA64{200 * 257, 100 * 257, 50 * 257, 0x8000})
	palette := image.NewPaletted(r, color.Palette{color.NRGBA{10, 20, 30, 0}, color.NRGBA{200, 100, 50, 255}})
	palette.Pix = []byte{0, 1}
	rgb := image.NewRGBA(r)
	rgb.SetRGBA(0, 0, color.RGBA{10, 20, 30, 255})
	rgb.SetRGBA(1, 0, color.RGBA{200, 100, 50, 255})
	colours, grays := []float32{10, 200, 20, 100, 30, 50}, []float32{10, 250, 10, 250, 10, 250}
	for name, tc := range map[string]struct {
		img  image.Image
		want []float32
	}{
		"gray": {gray, grays}, "gray16": {gray16, grays}, "rgb": {rgb, colours}, "rgba": {nrgba, colours},
		"rgba16": {wide, colours}, "palette": {palette, colours},
	} {
		if got := pixels(decodePNG(t, tc.img)); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

func encodePNG(t *testing.T, img image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func encodeJPEG(t *testing.T, img image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := jpeg.Encode(&b, img, &jpeg.Options{Quality: 100}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// exif returns a TIFF structure whose second entry is the orientation.
func exif(order binary.ByteOrder, orientation int) []byte {
	tiff := []byte("II*\x00")
	if order == binary.BigEndian {
		tiff = []byte("MM\x00*")
	}
	u16 := func(v uint16) []byte { b := make([]byte, 2); order.PutUint16(b, v); return b }
	u32 := func(v uint32) []byte { b := make([]byte, 4); order.PutUint32(b, v); return b }
	return slices.Concat(tiff, u32(8), u16(2),
		u16(0x010f), u16(2), u32(2), []byte("x\x00\x00\x00"),
		u16(0x0112), u16(3), u32(1), u16(uint16(orientation)), u16(0), u32(0))
}

// withOrientation inserts an EXIF segment after the first marker of a JPEG.
func withOrientation(jpg []byte, order binary.ByteOrder, orientation int) []byte {
	body := append([]byte("Exif\x00\x00"), exif(order, orientation)...)
	head := append([]byte{0xff, 0xd8, 0xff, 0xe1}, byte((len(body)+2)>>8), byte(len(body)+2))
	return bytes.Join([][]byte{head, body, jpg[2:]}, nil)
}

// chunk returns a chunk of a PNG.
func chunk(kind string, data []byte) []byte {
	body := append([]byte(kind), data...)
	out := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
	return binary.BigEndian.AppendUint32(append(out, body...), crc32.ChecksumIEEE(body))
}

// withChunk inserts a chunk after the first chunk of a PNG, or before the last.
func withChunk(png []byte, kind string, data []byte, last bool) []byte {
	at := 8 + 12 + 13 // the signature, and IHDR
	if last {
		at = len(png) - 12
	}
	return slices.Concat(png[:at], chunk(kind, data), png[at:])
}

// TestOrientation checks the positions of the corners. The table gives, for each orientation, the place of the stored
// upper left and upper right corners.
func TestOrientation(t *testing.T) {
	img := image.NewRGBA(image.Rect(0, 0, 48, 32))
	corner := map[string]color.RGBA{"TL": {255, 0, 0, 255}, "TR": {0, 255, 0, 255}, "BL": {0, 0, 255, 255},
		"BR": {255, 255, 255, 255}}
	for y := range 32 {
		for x := range 48 {
			img.SetRGBA(x, y, corner[string("TB"[y/16])+string("LR"[x/24])])
		}
	}
	jpg, upright := encodeJPEG(t, img), encodePNG(t, img)
	for orientation, want := range map[int][2]string{0: {"TL", "TR"}, 1: {"TL", "TR"}, 2: {"TR", "TL"}, 3: {"BR", "BL"},
		4: {"BL", "BR"},
		5: {"TL", "BL"}, 6: {"TR", "BR"}, 7: {"BR", "TR"}, 8: {"BL", "TL"}, 9: {"TL", "TR"}} {
		little, big := exif(binary.LittleEndian, orientation), exif(binary.BigEndian, orientation)
		for _, data := range [][]byte{withOrientation(jpg, binary.LittleEndian, orientation),
			withOrientation(jpg, binary.BigEndian, orientation),
			withChunk(upright, "eXIf", little, false), withChunk(upright, "eXIf", big, true),
			withChunk(upright, "eXIf", append(little, make([]byte, 1<<17)...), false)} {
			got, err := imaging.Decode("x", iotest.OneByteReader(bytes.NewReader(data)), imaging.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			w, h := got.Bounds().Dx(), got.Bounds().Dy()
			if turned := orientation >= 5 && orientation <= 8; turned != (w == 32) || w*h != 48*32 {
				t.Errorf("orientation %d: %d x %d", orientation, w, h)
			}
			for i, name := range []string{"TL", "TR"} {
				at := map[string]image.Point{"TL": {4, 4}, "TR": {w - 5, 4}, "BL": {4, h - 5},
					"BR": {w - 5, h - 5}}[want[i]]
				r, g, b, _ := got.At(at.X, at.Y).RGBA()
				c := corner[name]
				if math.Abs(float64(r>>8)-float64(c.R))+math.Abs(float64(g>>8)-float64(c.G))+
					math.Abs(float64(b>>8)-float64(c.B)) > 24 {
					t.Errorf("orientation %d: stored %s is not at %s, there is %d,%d,%d", orientation, name, want[i],
						r>>8, g>>8, b>>8)
				}
			}
		}
	}
}

// TestTurned compares turned PNGs with Pillow's ImageOps.exif_transpose (bench/goldens/images.py). A damaged chunk is
// an error; a chunk without an orientation is not.
func TestTurned(t *testing.T) {
	turned, err := os.ReadFile("testdata/turned.png")
	if err != nil {
		t.Fatal(err)
	}
	upright, err := os.ReadFile("testdata/turned.upright.png")
	if err != nil {
		t.Fatal(err)
	}
	decode := func(data []byte) []float32 {
		img, err := imaging.Decode("x.png", bytes.NewReader(data), imaging.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		return append(pixels(img), float32(img.Bounds().Dx()))
	}
	want := decode(upright)
	if !slices.Equal(decode(turned), want) {
		t.Error("the image is not turned as Pillow turns it")
	}
	for _, data := range []string{"", "E", "II*\x00", "Exif\x00\x00MM\x00*", "II*\x00\xff\xff\xff\xff"} {
		if !slices.Equal(decode(withChunk(upright, "eXIf", []byte(data), false)), want) {
			t.Errorf("eXIf of %q: the image is turned", data)
		}
	}
	turned[bytes.Index(turned, []byte("eXIf"))+9] ^= 1
	if _, err := imaging.Decode("x.png", bytes.NewReader(turned), imaging.Limits{}); !errors.Is(err, code.Image) ||
		!strings.Contains(err.Error(), "damaged") {
		t.Errorf("a chunk with a wrong check sum: %v", err)
	}
}

func TestJPEG(t *testing.T) {
	img := image.NewRGBA(image.Rect(0, 0, 16, 16))
	for i := range img.Pix {
		img.Pix[i] = []byte{200, 100, 50, 255}[i%4]
	}
	out, err := imaging.Decode("x.jpg", bytes.NewReader(encodeJPEG(t, img)), imaging.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	got := pixels(out)
	for c, want := range []float32{200, 100, 50} {
		if v := got[c*256+100]; v < want-2 || v > want+2 {
			t.Errorf("channel %d is %v, want about %v", c, v, want)
		}
	}
}

// TestCMYK compares CMYK images, turned or not, with PIL's convert("RGB") (bench/goldens/images.py). Four components
// without a colour space are an error.
func TestCMYK(t *testing.T) {
	jpg, err := os.ReadFile("testdata/cmyk.jpg")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		data []byte
		at   [2]image.Point // pixels of the left and the right colour
	}{
		"stored": {jpg, [2]image.Point{{3, 3}, {12, 3}}},
		"turned": {withOrientation(jpg, binary.BigEndian, 6), [2]image.Point{{3, 3}, {3, 12}}},
	} {
		img, err := imaging.Decode("x.jpg", bytes.NewReader(c.data), imaging.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		got, n := pixels(img), img.Bounds().Dx()*img.Bounds().Dy()
		for i, want := range [][3]float32{{51, 198, 235}, {195, 103, 27}} {
			for k, v := range want {
				if x := got[k*n+c.at[i].Y*img.Bounds().Dx()+c.at[i].X]; x < v-1 || x > v+1 {
					t.Errorf("%s: colour %d has %v in channel %d; PIL has %v", name, i, x, k, v)
				}
			}
		}
	}
	at := bytes.Index(jpg, []byte("Adobe"))
	if at < 0 {
		t.Fatal("no Adobe segment")
	}
	jpg[at] = 'a'
	if _, err := imaging.Decode("x.jpg", bytes.NewReader(jpg), imaging.Limits{}); !errors.Is(err, code.Image) ||
		!strings.Contains(err.Error(), "x.jpg: has a form that is not supported") {
		t.Errorf("without the Adobe segment: %v", err)
	}
}

// TestBicubic compares resized images with Pillow (bench/goldens/images.py), except for rounding near a half. PyTorch,
// whose weights have 16 bits, is off by 1 in 0.6 % of the values.
func TestBicubic(t *testing.T) {
	read := func(name string) image.Image {
		f, err := os.Open("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		img, err := imaging.Decode(name, f, imaging.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		return img
	}
	img := read("noise.png")
	for _, name := range []string{"noise.32x48.png", "noise.9x5.png"} {
		want := read(name)
		w, h, off := want.Bounds().Dx(), want.Bounds().Dy(), 0
		got := imaging.Resize(23, 17, 3, imaging.Bicubic(23, w, true), imaging.Bicubic(17, h, true), imaging.Pillow,
			imaging.RGBRow(img))
		for i, v := range pixels(want) {
			x := got[3*(i%(w*h))+i/(w*h)]
			if math.Abs(float64(x-v)) > 1 {
				t.Fatalf("%s: value %d is %v; want %v", name, i, x, v)
			}
			if x != v {
				off++
			}
		}
		if off > 3*w*h/1000 {
			t.Errorf("%s: %d of %d values differ", name, off, 3*w*h)
		}
	}
}

// claim returns a valid PNG header for w x h grey pixels, without the pixels.
func claim(w, h uint32) []byte {
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 1, 1))); err != nil {
		panic(err)
	}
	out := b.Bytes()
	binary.BigEndian.PutUint32(out[16:], w)
	binary.BigEndian.PutUint32(out[20:], h)
	binary.BigEndian.PutUint32(out[29:], crc32.ChecksumIEEE(out[12:29]))
	return out
}

func TestImageRefused(t *testing.T) {
	scene, err := os.ReadFile("../../demo/scene1.png")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		data []byte
		want string
	}{
		"empty":            {nil, "not an image"},
		"text":             {[]byte("GIF89a and so on"), "allowed are PNG, JPEG, WebP, TIFF and BMP"},
		"header only":      {scene[:20], "damaged"},
		"truncated":        {scene[:len(scene)/2], "damaged"},
		"truncated JPEG":   {encodeJPEG(t, image.NewGray(image.Rect(0, 0, 64, 64)))[:200], "damaged"},
		"2^28 and more":    {append(claim(16384, 16385), make([]byte, 1<<20)...), "2^28"},
		"long side":        {append(claim(1<<20+1, 1), make([]byte, 1<<20)...), "a side"},
		"more than fits":   {claim(8192, 8192), "in a file of"},
		"largest PNG side": {claim(1<<31-1, 1<<31-1), "not supported|2^28"},
	} {
		_, err := imaging.Decode("x.png", bytes.NewReader(tc.data), imaging.Limits{FileSize: int64(len(tc.data))})
		said := false
		for w := range strings.SplitSeq(tc.want, "|") {
			said = said || err != nil && strings.Contains(err.Error(), w)
		}
		if !errors.Is(err, code.Image) || !said || diag.ExitCode(err) != 3 ||
			!strings.HasPrefix(err.Error(), "x.png: ") {
			t.Errorf("%s: error %v, want one saying %q", name, err, tc.want)
		}
	}
	if _, err := imaging.Decode("x", bytes.NewReader(claim(3, 1)), imaging.Limits{}); !errors.Is(err, code.Image) ||
		strings.Contains(err.Error(), "claims") {
		t.Errorf("a small claim is refused for its size: %v", err)
	}
}

// zeros is a reader that never ends, such as /dev/zero.
type zeros struct{ given int }

func (z *zeros) Read(p []byte) (int, error) {
	clear(p)
	z.given += len(p)
	return len(p), nil
}

// TestEndlessImage checks that an endless source is refused early if it is not an image, and at the limit if it looks
// like one.
func TestEndlessImage(t *testing.T) {
	z := &zeros{}
	if _, err := imaging.Decode("/dev/zero", z, imaging.Limits{}); !errors.Is(err, code.Image) || z.given > 1<<16 {
		t.Errorf("%v after %d bytes", err, z.given)
	}
	segments := func() io.Reader { // comments, never the size
		segment := append([]byte{0xff, 0xfe, 0xff, 0xff}, make([]byte, 65533)...)
		parts := []io.Reader{strings.NewReader("\xff\xd8")}
		for range 1000 {
			parts = append(parts, bytes.NewReader(segment))
		}
		return io.MultiReader(parts...)
	}
	if _, err := imaging.Decode("x.jpg", segments(), imaging.Limits{}); !errors.Is(err, code.Image) ||
		!strings.Contains(err.Error(), "does not say its size") {
		t.Errorf("a JPEG of comments: %v", err)
	}
	broken := errors.New("broken")
	scene, err := os.ReadFile("../../demo/scene1.png")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 4, 20, len(scene) / 2} {
		_, err := imaging.Decode("x.png", io.MultiReader(bytes.NewReader(scene[:n]), iotest.ErrReader(broken)),
			imaging.Limits{})
		if !errors.Is(err, broken) || !errors.Is(err, code.Image) || !strings.Contains(err.Error(), "cannot be read") {
			t.Errorf("a fault after %d bytes: %v", n, err)
		}
	}
}

// interlaced returns a PNG of zeros in seven passes.
func interlaced(t *testing.T, w, h int) []byte {
	t.Helper()
	var b, z bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 1, 1))); err != nil {
		t.Fatal(err)
	}
	zw := zlib.NewWriter(&z)
	for _, p := range [7][4]int{{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2},
		{0, 1, 1, 2}} {
		pw, ph := (w-p[0]+p[2]-1)/p[2], (h-p[1]+p[3]-1)/p[3]
		zw.Write(make([]byte, ph*(1+8*pw)))
	}
	zw.Close()
	ihdr := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(w)), uint32(h))
	return slices.Concat(b.Bytes()[:8], chunk("IHDR", append(ihdr, 16, 6, 0, 0, 1)), chunk("IDAT", z.Bytes()),
		chunk("IEND", nil))
}

// TestImageMemory compares the bytes passed to Fits with what decoding allocates.
func TestImageMemory(t *testing.T) {
	const w, h = 2000, 1500
	r := image.Rect(0, 0, w, h)
	nrgba, wide := image.NewNRGBA(r), image.NewNRGBA64(r) // transparent images keep their type
	colour, grey := encodeJPEG(t, image.NewNRGBA(r)), encodeJPEG(t, image.NewGray(r))
	// The same image data as a scan of the first coefficients of a progressive file. The pixels differ, but the file
	// decodes.
	progressive := bytes.Clone(colour)
	progressive[bytes.Index(progressive, []byte{0xff, 0xc0, 0, 17})+1] = 0xc2
	progressive[bytes.Index(progressive, []byte{0xff, 0xda, 0, 12})+12] = 0
	for name, c := range map[string]struct {
		data []byte
		per  float64 // bytes a pixel
	}{
		"gray PNG": {encodePNG(t, image.NewGray(r)), 1}, "gray16 PNG": {encodePNG(t, image.NewGray16(r)), 2},
		"NRGBA PNG":      {encodePNG(t, nrgba), 4},
		"NRGBA64 PNG":    {encodePNG(t, wide), 8},
		"palette PNG":    {encodePNG(t, image.NewPaletted(r, color.Palette{color.Black, color.White})), 1},
		"interlaced PNG": {interlaced(t, w, h), 16}, "JPEG": {colour, 1.5}, "gray JPEG": {grey, 1},
		"progressive JPEG": {progressive, 7.5},
		"turned JPEG":      {withOrientation(colour, binary.BigEndian, 6), 9.5},
		"turned PNG":       {withChunk(encodePNG(t, nrgba), "eXIf", exif(binary.BigEndian, 6), true), 12},
	} {
		t.Run(name, func(t *testing.T) {
			var told int64
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := imaging.Decode("x", bytes.NewReader(c.data),
				imaging.Limits{Fits: func(n int64) error { told += n; return nil }})
			runtime.ReadMemStats(&after)
			if err != nil && name != "progressive JPEG" {
				t.Fatal(err)
			}
			got := int64(after.TotalAlloc - before.TotalAlloc)
			if d := got - told; d < -1<<20 || d > 1<<20 {
				t.Errorf("%d bytes were announced, %d allocated", told, got)
			}
			if want := int64(c.per * w * h); told < want || told > want+want/50 {
				t.Errorf("%d bytes were announced; want about %d", told, want)
			}
			no := errors.New("too much")
			runtime.ReadMemStats(&before)
			_, err = imaging.Decode("x", bytes.NewReader(c.data), imaging.Limits{Fits: func(int64) error { return no }})
			runtime.ReadMemStats(&after)
			if err != no || after.TotalAlloc-before.TotalAlloc > 1<<20 {
				t.Errorf("refused: %v, %d bytes allocated", err, after.TotalAlloc-before.TotalAlloc)
			}
		})
	}
	if _, err := imaging.Decode("x.png", bytes.NewReader(interlacedHeader(t)), imaging.Limits{}); !errors.Is(
		err, code.Image) || !strings.Contains(err.Error(), "take 2147483648 bytes in memory") {
		t.Errorf("2 GiB of pixels: %v", err)
	}
}

// interlacedHeader returns a header that claims 16384 x 16384 pixels of 8 bytes.
func interlacedHeader(t *testing.T) []byte {
	b := interlaced(t, 1, 1)
	binary.BigEndian.PutUint32(b[16:], 16384)
	binary.BigEndian.PutUint32(b[20:], 16384)
	binary.BigEndian.PutUint32(b[29:], crc32.ChecksumIEEE(b[12:29]))
	return b
}

// FuzzDecode reads and resizes every image that Decode accepts.
func FuzzDecode(f *testing.F) {
	var b bytes.Buffer
	img := image.NewGray(image.Rect(0, 0, 8, 5))
	if err := jpeg.Encode(&b, img, nil); err != nil {
		f.Fatal(err)
	}
	f.Add(withOrientation(b.Bytes(), binary.BigEndian, 6))
	f.Add(withOrientation(b.Bytes(), binary.LittleEndian, 3))
	var p bytes.Buffer
	if err := png.Encode(&p, img); err != nil {
		f.Fatal(err)
	}
	f.Add(p.Bytes())
	f.Add(withChunk(p.Bytes(), "eXIf", exif(binary.LittleEndian, 8), true))
	files, err := filepath.Glob("testdata/formats/*.[wtb][eim][bfp]*")
	if err != nil || len(files) == 0 {
		f.Fatal("no files of other formats", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		img, err := imaging.Decode("x", bytes.NewReader(data), imaging.Limits{Pixels: 1 << 20})
		if err != nil {
			if strings.Contains(err.Error(), "the decoder failed") {
				t.Log(err) // a panic of a decoder that is not ours
			}
			return
		}
		w, h := img.Bounds().Dx(), img.Bounds().Dy()
		for _, v := range imaging.Resize(w, h, 3, imaging.Bilinear(w, 16, true), imaging.Bilinear(h, 9, true),
			imaging.Pillow,
			imaging.RGBRow(img)) {
			if !(v >= 0 && v <= 255) {
				t.Fatalf("value %v of an image of %d x %d", v, w, h)
			}
		}
	})
}
