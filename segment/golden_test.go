package segment

import (
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"math"
	"os"
	"testing"

	"github.com/rlx-go/rlx/internal/imaging"
	"github.com/rlx-go/rlx/internal/tensortest"
)

const demo = "../demo/"

func load(t *testing.T, path string) image.Image {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, err := imaging.Decode(path, f, imaging.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// TestPreprocess compares pixel values with those of the reference pipeline for two images. A step of 1/255 is about
// 0.017.
func TestPreprocess(t *testing.T) {
	for name, bound := range map[string]float64{"scene1": 1e-5, "coins": 1e-5} {
		want := tensortest.Golden(t, demo+"golden.safetensors:"+name+".pixel_values")
		s := newSpec(256, 64)
		got, g := s.preprocess(load(t, demo+name+".png"))
		if len(got) != want.Len() {
			t.Fatalf("%s: %d values", name, len(got))
		}
		worst := 0.0
		for i, v := range got {
			if d := math.Abs(float64(v) - want.Floats[i]); !(d <= worst) {
				worst = d
			}
		}
		t.Logf("%s: %+v, largest absolute difference %.3g", name, g, worst)
		if !(worst <= bound) {
			t.Errorf("%s: largest absolute difference %g, allowed %g", name, worst, bound)
		}
	}
}

type goldenCase struct {
	Size []int     `json:"size"`
	IoU  []float64 `json:"iou"`
	Best int       `json:"best"`
	Area int       `json:"area"`
}

func goldens(t *testing.T) map[string]goldenCase {
	t.Helper()
	raw, err := os.ReadFile(demo + "golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]goldenCase
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestPostprocess checks that the logits of the reference give the masks of the reference.
func TestPostprocess(t *testing.T) {
	for name, c := range goldens(t) {
		logits := tensortest.Golden(t, demo+"golden.safetensors:"+name+".low_res_masks") // mask tokens 1 to 3
		iou := tensortest.Golden(t, demo+"golden.safetensors:"+name+".iou")
		h, w := logits.Shape[1], logits.Shape[2]
		full, quality := make([]float32, 4*h*w), []float32{9, 0, 0, 0} // mask token 0 must not win
		for i, v := range logits.Floats {
			full[h*w+i] = float32(v)
		}
		for i, v := range iou.Floats {
			quality[1+i] = float32(v)
		}
		s := newSpec(256, 64)
		masks, err := s.postprocess(full, h, w, quality, s.geometry(c.Size[0], c.Size[1]), Best)
		if err != nil || len(masks) != 1 {
			t.Fatalf("%s: %d masks, %v", name, len(masks), err)
		}
		m := masks[0]
		if m.Token != 1+c.Best || math.Abs(float64(m.IoU)-c.IoU[c.Best]) > 1e-4 {
			t.Errorf("%s: mask %d with IoU %v, want %d with %v", name, m.Token, m.IoU, 1+c.Best, c.IoU[c.Best])
		}
		area := 0
		for _, v := range m.Image.Pix {
			if v == 255 {
				area++
			}
		}
		if math.Abs(float64(area-c.Area)) > 0.002*float64(c.Area) {
			t.Errorf("%s: area %d, want %d", name, area, c.Area)
		}
		if f, err := os.Open(demo + name + ".mask.png"); err == nil {
			want, err := png.Decode(f)
			f.Close()
			if err != nil {
				t.Fatal(err)
			}
			got := maskIoU(t, m.Image, want)
			t.Logf("%s: IoU with the reference mask %.5f, area %d of %d", name, got, area, c.Area)
			if !(got >= 0.999) {
				t.Errorf("%s: IoU %v with the reference mask", name, got)
			}
		} else if name == "scene1" || name == "coins" {
			t.Fatal(err)
		}
	}
}

func maskIoU(t *testing.T, a *image.Gray, b image.Image) float64 {
	t.Helper()
	if a.Bounds() != b.Bounds() {
		t.Fatal(fmt.Errorf("bounds %v, want %v", a.Bounds(), b.Bounds()))
	}
	both, either := 0, 0
	for y := range a.Rect.Dy() {
		for x := range a.Rect.Dx() {
			p := a.GrayAt(x, y).Y != 0
			r, _, _, _ := b.At(x, y).RGBA()
			q := r != 0
			if p && q {
				both++
			}
			if p || q {
				either++
			}
		}
	}
	return float64(both) / float64(either)
}
