package task_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/task"
)

func decodePNG(t *testing.T, img image.Image) image.Image {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	out, err := task.DecodeImage("x.png", &b)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// plain gives RGB values as they are: no resize, no normalisation.
func plain(size int) task.Segment {
	s := task.NewSegment(size, 64)
	s.Mean, s.Std = [3]float64{}, [3]float64{1, 1, 1}
	return s
}

// Every kind of PNG becomes RGB as PIL's convert("RGB") makes it: grey is repeated, palettes are looked up, transparency is
// dropped and the colour under it kept, 16 bits become 8.
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
		s := plain(2)
		got, _ := s.Preprocess(decodePNG(t, tc.img))
		for i, want := range tc.want { // two pixels of each plane; the row below is padding
			if v := got[i/2*4+i%2]; v != want {
				t.Errorf("%s: value %d is %v, want %v", name, i, v, want)
			}
			if v := got[i/2*4+2+i%2]; v != 0 {
				t.Errorf("%s: padding is %v", name, v)
			}
		}
	}
}

func TestGeometry(t *testing.T) {
	s := task.NewSegment(1024, 64)
	for _, tc := range []struct{ w, h, sw, sh int }{
		{1024, 1024, 1024, 1024}, {1800, 1200, 1024, 683}, {1200, 1800, 683, 1024}, {100, 100, 1024, 1024}, {100000, 1, 1024, 1}, {1, 3000, 1, 1024},
	} {
		if g := s.Geometry(tc.w, tc.h); g.ScaledW != tc.sw || g.ScaledH != tc.sh {
			t.Errorf("%d x %d: %+v, want %d x %d", tc.w, tc.h, g, tc.sw, tc.sh)
		}
	}
}

func encodeJPEG(t *testing.T, img image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := jpeg.Encode(&b, img, &jpeg.Options{Quality: 100}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// withOrientation puts an EXIF segment behind the first marker of a JPEG.
func withOrientation(jpg []byte, order binary.ByteOrder, orientation int) []byte {
	tiff := []byte("II*\x00")
	if order == binary.BigEndian {
		tiff = []byte("MM\x00*")
	}
	u16 := func(v uint16) []byte { b := make([]byte, 2); order.PutUint16(b, v); return b }
	u32 := func(v uint32) []byte { b := make([]byte, 4); order.PutUint32(b, v); return b }
	body := bytes.Join([][]byte{[]byte("Exif\x00\x00"), tiff, u32(8), u16(2),
		u16(0x010f), u16(2), u32(2), []byte("x\x00\x00\x00"),
		u16(0x0112), u16(3), u32(1), u16(uint16(orientation)), u16(0), u32(0)}, nil)
	head := append([]byte{0xff, 0xd8, 0xff, 0xe1}, byte((len(body)+2)>>8), byte(len(body)+2))
	return bytes.Join([][]byte{head, body, jpg[2:]}, nil)
}

// The corners end up where the EXIF standard says: by orientation, the place of the stored upper left and upper right.
func TestOrientation(t *testing.T) {
	img := image.NewRGBA(image.Rect(0, 0, 48, 32))
	corner := map[string]color.RGBA{"TL": {255, 0, 0, 255}, "TR": {0, 255, 0, 255}, "BL": {0, 0, 255, 255}, "BR": {255, 255, 255, 255}}
	for y := range 32 {
		for x := range 48 {
			img.SetRGBA(x, y, corner[string("TB"[y/16])+string("LR"[x/24])])
		}
	}
	jpg := encodeJPEG(t, img)
	for orientation, want := range map[int][2]string{0: {"TL", "TR"}, 1: {"TL", "TR"}, 2: {"TR", "TL"}, 3: {"BR", "BL"}, 4: {"BL", "BR"},
		5: {"TL", "BL"}, 6: {"TR", "BR"}, 7: {"BR", "TR"}, 8: {"BL", "TL"}, 9: {"TL", "TR"}} {
		for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
			got, err := task.DecodeImage("x.jpg", bytes.NewReader(withOrientation(jpg, order, orientation)))
			if err != nil {
				t.Fatal(err)
			}
			w, h := got.Bounds().Dx(), got.Bounds().Dy()
			if turned := orientation >= 5 && orientation <= 8; turned != (w == 32) || w*h != 48*32 {
				t.Errorf("orientation %d: %d x %d", orientation, w, h)
			}
			for i, name := range []string{"TL", "TR"} {
				at := map[string]image.Point{"TL": {4, 4}, "TR": {w - 5, 4}, "BL": {4, h - 5}, "BR": {w - 5, h - 5}}[want[i]]
				r, g, b, _ := got.At(at.X, at.Y).RGBA()
				c := corner[name]
				if math.Abs(float64(r>>8)-float64(c.R))+math.Abs(float64(g>>8)-float64(c.G))+math.Abs(float64(b>>8)-float64(c.B)) > 24 {
					t.Errorf("orientation %d: stored %s is not at %s, there is %d,%d,%d", orientation, name, want[i], r>>8, g>>8, b>>8)
				}
			}
		}
	}
}

func TestJPEG(t *testing.T) {
	img := image.NewRGBA(image.Rect(0, 0, 16, 16))
	for i := range img.Pix {
		img.Pix[i] = []byte{200, 100, 50, 255}[i%4]
	}
	out, err := task.DecodeImage("x.jpg", bytes.NewReader(encodeJPEG(t, img)))
	if err != nil {
		t.Fatal(err)
	}
	s := plain(16)
	got, _ := s.Preprocess(out)
	for c, want := range []float32{200, 100, 50} {
		if v := got[c*256+100]; v < want-2 || v > want+2 {
			t.Errorf("channel %d is %v, want about %v", c, v, want)
		}
	}
}

// claim makes a valid PNG header for w x h grey pixels without the pixels.
func claim(w, h uint32) []byte {
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 1, 1))); err != nil {
		panic(err)
	}
	out := b.Bytes()
	binary.BigEndian.PutUint32(out[16:], w)
	binary.BigEndian.PutUint32(out[20:], h)
	crc := uint32(0xffffffff)
	for _, c := range out[12:29] {
		crc ^= uint32(c)
		for range 8 {
			crc = crc>>1 ^ 0xedb88320*(crc&1)
		}
	}
	binary.BigEndian.PutUint32(out[29:], ^crc)
	return out
}

func TestImageRefused(t *testing.T) {
	scene, err := os.ReadFile(demo + "scene1.png")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		data []byte
		want string
	}{
		"empty":            {nil, "not an image"},
		"text":             {[]byte("GIF89a and so on"), "allowed are PNG and JPEG"},
		"header only":      {scene[:20], "damaged"},
		"truncated":        {scene[:len(scene)/2], "damaged"},
		"truncated JPEG":   {encodeJPEG(t, image.NewGray(image.Rect(0, 0, 64, 64)))[:200], "damaged"},
		"2^28 and more":    {append(claim(16384, 16385), make([]byte, 1<<20)...), "2^28"},
		"long side":        {append(claim(1<<20+1, 1), make([]byte, 1<<20)...), "a side"},
		"more than fits":   {claim(8192, 8192), "in a file of"},
		"largest PNG side": {claim(1<<31-1, 1<<31-1), "damaged|2^28"},
	} {
		_, err := task.DecodeImage("x.png", bytes.NewReader(tc.data))
		said := false
		for w := range strings.SplitSeq(tc.want, "|") {
			said = said || err != nil && strings.Contains(err.Error(), w)
		}
		if !errors.Is(err, task.CodeImage) || !said || diag.ExitCode(err) != 3 || !strings.HasPrefix(err.Error(), "x.png: ") {
			t.Errorf("%s: error %v, want one saying %q", name, err, tc.want)
		}
	}
	if _, err := task.DecodeImage("x", bytes.NewReader(claim(3, 1))); !errors.Is(err, task.CodeImage) || strings.Contains(err.Error(), "claims") {
		t.Errorf("a small claim is refused for its size: %v", err)
	}
}

// FuzzDecodeImage: whatever is accepted can be preprocessed.
func FuzzDecodeImage(f *testing.F) {
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
	f.Fuzz(func(t *testing.T, data []byte) {
		img, err := task.DecodeImage("x", bytes.NewReader(data))
		if err != nil {
			return
		}
		s := task.NewSegment(16, 64)
		got, g := s.Preprocess(img)
		for _, v := range got {
			if !(v >= -3 && v <= 3) {
				t.Fatalf("value %v of an image of %d x %d", v, g.Width, g.Height)
			}
		}
	})
}

func BenchmarkPreprocess(b *testing.B) {
	s := task.NewSegment(1024, 64)
	r := image.Rect(0, 0, 4000, 3000)
	for name, img := range map[string]image.Image{"rgb": image.NewNRGBA(r), "jpeg": image.NewYCbCr(r, image.YCbCrSubsampleRatio420), "rgba16": image.NewNRGBA64(r)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				s.Preprocess(img)
			}
		})
	}
}

func BenchmarkPostprocess(b *testing.B) {
	s := task.NewSegment(1024, 64)
	logits, iou := make([]float32, 4*256*256), make([]float32, 4)
	for b.Loop() {
		if _, err := s.Postprocess(logits, 256, 256, iou, s.Geometry(4000, 3000), task.MaskBest); err != nil {
			b.Fatal(err)
		}
	}
}
