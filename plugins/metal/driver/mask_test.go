package driver

import (
	"bytes"
	"image/png"
	"os"
	"path/filepath"
	"testing"
)

// TestMasks compares the masks of the demo on cpu and metal, which make test-metal writes to the folder $RLX_MASKS.
func TestMasks(t *testing.T) {
	dir := os.Getenv("RLX_MASKS")
	if dir == "" {
		t.Skip("RLX_MASKS is not set")
	}
	var files [2][]byte
	var masks [2][]bool
	for i, name := range []string{"cpu.png", "metal.png"} {
		var err error
		if files[i], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		if masks[i], err = mask(files[i]); err != nil {
			t.Fatal(err)
		}
	}
	iou := overlap(masks[0], masks[1])
	t.Logf("report: the IoU of the masks of metal and cpu is %.5f; the files are the same: %t", iou,
		bytes.Equal(files[0], files[1]))
	if !(iou > 0.999) {
		t.Errorf("IoU %v; want more than 0.999", iou)
	}
}

// mask decodes a PNG and reports for each pixel whether it is lighter than half.
func mask(file []byte) (out []bool, err error) {
	img, err := png.Decode(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	r := img.Bounds()
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			_, g, _, _ := img.At(x, y).RGBA()
			out = append(out, g >= 1<<15)
		}
	}
	return out, nil
}

// overlap returns the intersection over the union of two masks. It is NaN for empty masks, and 0 for masks of different
// sizes.
func overlap(a, b []bool) float64 {
	both, any := 0, 0
	if len(a) != len(b) {
		return 0
	}
	for i := range a {
		if a[i] && b[i] {
			both++
		}
		if a[i] || b[i] {
			any++
		}
	}
	return float64(both) / float64(any)
}

func TestOverlap(t *testing.T) {
	if got := overlap([]bool{true, true, false, true}, []bool{true, false, false, true}); got != 2.0/3 {
		t.Errorf("overlap %v", got)
	}
}
