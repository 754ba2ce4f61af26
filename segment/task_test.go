package segment

import (
	"errors"
	"image"
	"image/color"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/diag"
)

func TestPrompt(t *testing.T) {
	s := newSpec(256, 4)
	g := s.geometry(384, 303) // 256 x 202
	fg, bg := Point{X: 192, Y: 151.5, Foreground: true}, Point{X: 0, Y: 101, Foreground: false}
	box := &Box{X0: 0, Y0: 0, X1: 384, Y1: 303}
	bgY := float32(101.0 * 202 / 303)
	for name, tc := range map[string]struct {
		p      Prompts
		points []float32
		labels []int32
	}{
		"point":      {Prompts{Points: []Point{fg}}, []float32{128, 101, 0, 0}, []int32{1, -1}},
		"two points": {Prompts{Points: []Point{fg, bg}}, []float32{128, 101, 0, bgY, 0, 0}, []int32{1, 0, -1}},
		"box":        {Prompts{Box: box}, []float32{0, 0, 256, 202}, []int32{2, 3}},
		"points and box": {Prompts{Points: []Point{bg, fg}, Box: box}, []float32{0, bgY, 128, 101, 0, 0, 256, 202},
			[]int32{0, 1, 2, 3}},
	} {
		points, labels, err := s.prompt(tc.p, g)
		if err != nil || !slices.Equal(points, tc.points) || !slices.Equal(labels, tc.labels) {
			t.Errorf("%s: %v %v, %v; want %v %v", name, points, labels, err, tc.points, tc.labels)
		}
	}
	at := func(x, y float64) Prompts { return Prompts{Points: []Point{{X: x, Y: y}}} }
	frame := func(x0, y0, x1, y1 float64) Prompts {
		return Prompts{Box: &Box{X0: x0, Y0: y0, X1: x1, Y1: y1}}
	}
	for name, tc := range map[string]struct {
		p    Prompts
		want string
	}{
		"none": {Prompts{}, "no prompt"},
		"left": {at(-1, 5),
			"point -1,5: is outside the image, which has 384 x 303 pixels; the last is 383,302"},
		"right":      {at(384.5, 5), "outside"},
		"right edge": {at(384, 5), "outside the image, which has 384 x 303 pixels; the last is 383,302"},
		"lower edge": {at(5, 303), "outside"},
		"above":      {at(5, -0.25), "outside"},
		"below":      {at(5, 304), "outside"},
		"NaN":        {at(math.NaN(), 5), "outside"},
		"infinite":   {at(5, math.Inf(1)), "outside"},
		"box outside": {frame(5, 5, 400, 50),
			"box 5,5,400,50: is outside the image, which has 384 x 303 pixels; allowed are x from 0 to 384 and y from 0 to 303"},
		"box without x":   {frame(5, 5, 5, 50), "is empty"},
		"box upside down": {frame(5, 50, 50, 5), "is empty"},
		"box of NaN":      {frame(math.NaN(), 5, 50, 50), "is empty"},
		"too many points": {Prompts{Points: []Point{fg, fg, fg, fg}},
			"4 points and one padding point; the artifact allows 4"},
		"too many": {Prompts{Points: []Point{fg, fg, fg}, Box: box}, "two corners"},
	} {
		if _, _, err := s.prompt(tc.p, g); !errors.Is(err, ErrPrompt) || !strings.Contains(err.Error(), tc.want) ||
			diag.ExitCode(err) != 2 {
			t.Errorf("%s: error %v, want one saying %q", name, err, tc.want)
		}
	}
}

func TestChoose(t *testing.T) {
	s := newSpec(8, 8)
	g := s.geometry(8, 4)
	logits := []float32{1, -1, 2, -2} // one for each mask
	nan := float32(math.NaN())
	for name, tc := range map[string]struct {
		which Choice
		iou   []float32
		want  []int
	}{
		"best":              {"best", []float32{9, 1, 3, 2}, []int{2}},
		"best of equals":    {"best", []float32{0, 2, 2, 2}, []int{1}},
		"best skips NaN":    {"best", []float32{0, nan, 1, nan}, []int{2}},
		"best below zero":   {"best", []float32{0, -3, -2, -1}, []int{3}},
		"number":            {"0", []float32{0, 1, 2, 3}, []int{0}},
		"number, IoU NaN":   {"3", []float32{nan, nan, nan, nan}, []int{3}},
		"all, in order":     {"all", []float32{0, 1, 2, 3}, []int{0, 1, 2, 3}},
		"all, with IoU NaN": {"all", []float32{nan, 1, 2, 3}, []int{0, 1, 2, 3}},
	} {
		masks, err := s.postprocess(logits, 1, 1, tc.iou, g, tc.which)
		if err != nil || len(masks) != len(tc.want) {
			t.Errorf("%s: %v, %v", name, masks, err)
			continue
		}
		for i, m := range masks {
			full := byte(0)
			if logits[tc.want[i]] > 0 {
				full = 255
			}
			if m.Token != tc.want[i] || m.Image.Bounds() != image.Rect(0, 0, 8, 4) || m.Image.Pix[0] != full ||
				m.Image.Pix[31] != full {
				t.Errorf("%s: mask %d is token %d, %v", name, i, m.Token, m.Image.Pix)
			}
		}
	}
	for _, which := range []Choice{"4", "-1", "worst", "01", "+1", "1 "} {
		if _, err := s.postprocess(logits, 1, 1, make([]float32, 4), g, which); !errors.Is(err, ErrChoice) ||
			diag.ExitCode(err) != 2 {
			t.Errorf("mask %q: %v", which, err)
		}
	}
	if _, err := s.postprocess(logits, 1, 1, []float32{1, nan, nan, nan}, g, "best"); !errors.Is(err, ErrNoBest) ||
		diag.ExitCode(err) != 1 {
		t.Errorf("no best: %v", err)
	}
}

func TestGeometry(t *testing.T) {
	s := newSpec(1024, 64)
	for _, tc := range []struct{ w, h, sw, sh int }{
		{1024, 1024, 1024, 1024}, {1800, 1200, 1024, 683}, {1200, 1800, 683, 1024}, {100, 100, 1024, 1024},
		{100000, 1, 1024, 1}, {1, 3000, 1, 1024},
	} {
		if g := s.geometry(tc.w, tc.h); g.ScaledW != tc.sw || g.ScaledH != tc.sh {
			t.Errorf("%d x %d: %+v, want %d x %d", tc.w, tc.h, g, tc.sw, tc.sh)
		}
	}
}

func TestOverlay(t *testing.T) {
	photo := image.NewGray(image.Rect(0, 0, 40, 40))
	mask := image.NewGray(photo.Rect)
	for y := 10; y < 30; y++ {
		for x := 10; x < 30; x++ {
			mask.SetGray(x, y, color.Gray{255})
		}
	}
	p := Prompts{Points: []Point{{X: 5, Y: 5, Foreground: true}, {X: 40, Y: 40}},
		Box: &Box{X0: 8, Y0: 8, X1: 32, Y1: 32}}
	out := Overlay(photo, mask, p)
	if out.Bounds() != photo.Rect {
		t.Fatalf("bounds %v", out.Bounds())
	}
	for at, is := range map[image.Point]func(c color.NRGBA) bool{
		{35, 15}: func(c color.NRGBA) bool { return c == color.NRGBA{0, 0, 0, 255} },       // the image
		{20, 20}: func(c color.NRGBA) bool { return c.B > 100 && c.R < 30 },                // tint
		{10, 20}: func(c color.NRGBA) bool { return c == color.NRGBA{255, 255, 255, 255} }, // outline
		{5, 5}:   func(c color.NRGBA) bool { return c.G > 150 && c.R < 100 },               // foreground disc
		// background disc, cut by the edge
		{39, 39}: func(c color.NRGBA) bool { return c.R > 150 && c.G < 100 },
		{20, 8}:  func(c color.NRGBA) bool { return c.G > 150 && c.R < 100 }, // box
	} {
		if c := out.NRGBAAt(at.X, at.Y); !is(c) {
			t.Errorf("at %v: %v", at, c)
		}
	}
	if photo.Pix[20*40+20] != 0 {
		t.Error("the photo was changed")
	}
}

// TestMaskLogits checks that white gives a high logit, and that black and the part outside the image give low ones.
func TestMaskLogits(t *testing.T) {
	s := newSpec(64, 4)
	s.MaskInput, s.MaskSide = "mask", 16
	img := image.NewGray(image.Rect(0, 0, 32, 16)) // its left half is white; scaled, it is 16 x 8 logits
	for i := range img.Pix {
		if i%32 < 16 {
			img.Pix[i] = 255
		}
	}
	got, err := s.maskLogits(img, s.geometry(32, 16))
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range got {
		want := float32(-10)
		if y, x := i/16, i%16; y < 8 && x < 8 {
			want = 10
		}
		if i/16 < 8 && (i%16 == 7 || i%16 == 8) {
			want *= 0.75 // at the edge, one eighth comes from the other side
		}
		if v != want {
			t.Fatalf("logit %d,%d is %v; want %v", i%16, i/16, v, want)
		}
	}
	if _, err := s.maskLogits(img, s.geometry(16, 32)); !errors.Is(err, ErrPrompt) {
		t.Errorf("a picture of another size: %v", err)
	}
	if back, err := s.maskPrompt(Prompts{Mask: got}); err != nil || len(back) != 256 {
		t.Errorf("%d logits, %v", len(back), err)
	}
	for _, bad := range []float64{math.NaN(), math.Inf(-1)} {
		mask := append([]float32{float32(bad)}, got[1:]...)
		if _, err := s.maskPrompt(Prompts{Mask: mask}); !errors.Is(err, ErrPrompt) {
			t.Errorf("a mask with %v: %v", bad, err)
		}
	}
	if _, err := s.maskPrompt(Prompts{Mask: got[1:]}); !errors.Is(err, ErrPrompt) {
		t.Errorf("a logit too few: %v", err)
	}
	if _, err := newSpec(64, 4).maskPrompt(Prompts{Mask: got}); !errors.Is(err, ErrPrompt) {
		t.Errorf("a model without masks: %v", err)
	}
}
