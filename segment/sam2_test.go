package segment

import (
	"image"
	"math"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/internal/tensortest"
	"github.com/rlx-go/rlx/task"
)

// stretching returns a spec of a model that takes images as SAM 2 does.
func stretching(size int) *spec {
	s := newSpec(size, 64)
	s.Resize, s.PadBoxes, s.Tokens, s.BestFirst, s.BestLast = task.ResizeStretch, true, 1, 0, 0
	return s
}

// TestStretch compares pixels and masks with those of SAM 2's image processor.
func TestStretch(t *testing.T) {
	golden := func(name string) []float64 {
		return tensortest.Golden(t, "testdata/sam2.safetensors:"+name).Floats
	}
	img := load(t, demo+"coins.png").(interface {
		SubImage(image.Rectangle) image.Image
	}).SubImage(image.Rect(40, 30, 97, 71))
	s := stretching(32)
	pixels, g := s.preprocess(img)
	// PyTorch rounds the weights of its resize to 16 bits, so that some values differ by one step of 8 bits.
	const step = 1 / (255 * 0.224)
	differ := 0
	for i, want := range golden("pixel_values") {
		d := math.Abs(float64(pixels[i]) - want)
		if d > 1e-5 {
			differ++
		}
		if d > step+1e-5 {
			t.Errorf("pixel %d is %v; want %v", i, pixels[i], want)
		}
	}
	t.Logf("%d of %d values differ by one step", differ, len(pixels))
	if differ > len(pixels)/50 {
		t.Errorf("%d of %d values differ by one step", differ, len(pixels))
	}
	var logits []float32
	for _, v := range golden("logits") {
		logits = append(logits, float32(v))
	}
	masks, err := s.postprocess(logits, 24, 24, []float32{1}, g, Best)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range golden("mask") {
		if got := masks[0].Image.Pix[i] == 255; got != (want == 1) {
			t.Errorf("pixel %d, %d of the mask is %v; want %v", i%57, i/57, got, want == 1)
		}
	}
}

// TestStretchedPrompt checks that points are scaled on each axis, and that a padding point follows a box.
func TestStretchedPrompt(t *testing.T) {
	s := stretching(64)
	p := Prompts{Points: []Point{{X: 30, Y: 5, Foreground: true}}, Box: &Box{X0: 10, Y0: 0, X1: 40, Y1: 10}}
	points, labels, err := s.prompt(p, s.geometry(40, 10))
	if err != nil || !slices.Equal(points, []float32{48, 32, 16, 0, 64, 64, 0, 0}) ||
		!slices.Equal(labels, []int32{1, 2, 3, -1}) {
		t.Errorf("%v %v %v", points, labels, err)
	}
	s.MaxPoints = 3
	if _, _, err := s.prompt(p, s.geometry(40, 10)); err == nil {
		t.Error("4 points for a model that takes 3: no error")
	}
}
