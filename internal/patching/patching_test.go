package patching

import (
	"math"
	"os"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/internal/imaging"
	"github.com/rlx-go/rlx/internal/tensortest"
)

// TestPublished compares rows of images of odd sizes, which are resized, with those of the published processor.
func TestPublished(t *testing.T) {
	const golden = "../../testdata/goldens/qwen3vl_tiny/"
	r := Rule{Patch: 4, Merge: 2, Frames: 2, MinPixels: 256, MaxPixels: 4096, MaxPatches: 256,
		Mean: [3]float64{0.5, 0.45, 0.4}, Std: [3]float64{0.5, 0.25, 0.3}}
	for _, name := range []string{"wide", "tall", "small", "large"} {
		f, err := os.Open(golden + name + ".png")
		if err != nil {
			t.Fatal(err)
		}
		img, err := imaging.Decode(name, f, imaging.Limits{})
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		got, rows, columns, err := r.Rows(img)
		grid := tensortest.Golden(t, golden+"golden.safetensors:"+name+".grid").Ints
		if err != nil || !slices.Equal([]int64{1, int64(rows), int64(columns)}, grid) {
			t.Fatalf("%s: %d x %d patches (%v); want %v", name, rows, columns, err, grid)
		}
		want := tensortest.Golden(t, golden+"golden.safetensors:"+name+".pixel_values").Floats
		for i, v := range got {
			if d := math.Abs(float64(v) - want[i]); d > 1e-6 {
				t.Fatalf("%s: value %d is %v; want %v", name, i, v, want[i])
			}
		}
	}
}
