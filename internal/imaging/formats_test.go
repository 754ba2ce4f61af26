package imaging_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"image"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"golang.org/x/image/tiff"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/internal/imaging"
)

// TestFormats compares the results of Decode for WebP, TIFF and BMP with those of Pillow (bench/goldens/images.py).
// Lossless files must agree. For lossy files, Pillow interpolates the chroma.
func TestFormats(t *testing.T) {
	wants, err := filepath.Glob("testdata/formats/*.png")
	if err != nil || len(wants) < 18 {
		t.Fatalf("%d files: %v", len(wants), err)
	}
	for _, path := range wants {
		name := strings.TrimSuffix(filepath.Base(path), ".png")
		data, err := os.ReadFile(strings.TrimSuffix(path, ".png"))
		if err != nil {
			t.Fatal(err)
		}
		wantFile, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want, err := imaging.Decode(path, bytes.NewReader(wantFile), imaging.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []int64{0, int64(len(data))} {
			got, err := imaging.Decode(name, iotest.HalfReader(bytes.NewReader(data)), imaging.Limits{FileSize: size})
			if err != nil {
				t.Fatal(err)
			}
			if got.Bounds().Size() != want.Bounds().Size() {
				t.Fatalf("%s: %v; want %v", name, got.Bounds(), want.Bounds())
			}
			allowed, worst := 0.0, 0.0
			if strings.Contains("lossy.webp alpha.webp turned.webp", name) {
				allowed = 8
			} else if name == "palette.tif" {
				allowed = 1 - 1.0/256 // its colours have 16 bits, of which Pillow takes the upper ones
			}
			p := pixels(want)
			for i, v := range pixels(got) {
				worst = max(worst, math.Abs(float64(v-p[i])))
			}
			t.Logf("%s: at most %v from Pillow", name, worst)
			if worst > allowed {
				t.Errorf("%s: %v from Pillow; allowed is %v", name, worst, allowed)
			}
		}
	}
}

// TestFormatsRefused checks the errors for files that are damaged, or of a form that is not read.
func TestFormatsRefused(t *testing.T) {
	read := func(name string) []byte {
		data, err := os.ReadFile("testdata/formats/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	huge := bytes.Clone(read("raw.tif"))
	if at := bytes.Index(huge, []byte{0x00, 0x01, 4, 0, 1, 0, 0, 0}); at >= 0 { // ImageWidth
		binary.LittleEndian.PutUint32(huge[at+8:], 1<<30)
	} else {
		t.Fatal("raw.tif has no width")
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"animated WebP":  {read("animated.webp"), "animation; allowed are still images"},
		"cut WebP":       {read("lossless.webp")[:200], "damaged"},
		"cut lossy WebP": {read("lossy.webp")[:120], "damaged"},
		"RIFF of sound":  {[]byte("RIFF\x24\x00\x00\x00WAVEfmt "), "allowed are PNG, JPEG, WebP"},
		"inverted fax":   {read("inverted.tif"), "not supported"},
		"cut TIFF":       {read("tiff_lzw.tif")[:300], "damaged"},
		"wide TIFF":      {huge, "the limits are 2^28 pixels"},
		"cut BMP":        {read("colour.bmp")[:90], "damaged"},
		"OS/2 BMP": {append([]byte("BM\x00\x00\x00\x00\x00\x00\x00\x00\x1a\x00\x00\x00\x0c\x00"),
			make([]byte, 64)...), "not supported"},
	} {
		_, err := imaging.Decode("x", bytes.NewReader(c.data), imaging.Limits{})
		if !errors.Is(err, code.Image) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}

// TestFormatsMemory checks that Fits gets at least the number of bytes that decoding allocates, and that its error
// stops the decoding before.
func TestFormatsMemory(t *testing.T) {
	const w, h = 1500, 1000
	var raw, packed bytes.Buffer
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	if err := errors.Join(tiff.Encode(&raw, img, nil),
		tiff.Encode(&packed, img, &tiff.Options{Compression: tiff.Deflate})); err != nil {
		t.Fatal(err)
	}
	lossless, err := os.ReadFile("testdata/large.webp")
	if err != nil {
		t.Fatal(err)
	}
	lossy, err := os.ReadFile("testdata/large-alpha.webp")
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"raw TIFF": raw.Bytes(), "deflated TIFF": packed.Bytes(),
		"lossless WebP": lossless, "lossy WebP": lossy} {
		var told int64
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := imaging.Decode("x", bytes.NewReader(data),
			imaging.Limits{FileSize: int64(len(data)), Fits: func(n int64) error { told += n; return nil }})
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := int64(after.TotalAlloc - before.TotalAlloc); got > told+1<<20 {
			t.Errorf("%s: %d bytes were announced, %d allocated", name, told, got)
		}
		no, calls := errors.New("too much"), 0
		runtime.ReadMemStats(&before)
		_, err = imaging.Decode("x", bytes.NewReader(data), imaging.Limits{Fits: func(int64) error {
			if calls++; calls > 1 { // the first is about the file
				return no
			}
			return nil
		}})
		runtime.ReadMemStats(&after)
		if err != no || after.TotalAlloc-before.TotalAlloc > uint64(3*len(data)+2<<20) {
			t.Errorf("%s refused: %v, %d bytes allocated", name, err, after.TotalAlloc-before.TotalAlloc)
		}
	}
}

func TestNamed(t *testing.T) {
	for name, want := range map[string]bool{"a.png": true, "x/photo.JPG": true, "a.webp": true, "a.TIFF": true,
		"a.tif": true, "a.bmp": true, "a.gif": false, "png": false, "": false} {
		if imaging.Named(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}
