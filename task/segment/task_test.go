package segment_test

import (
	"errors"
	"image"
	"image/color"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/task/segment"
	"github.com/rlx-go/rlx/task/tasktest"
)

func TestPrompt(t *testing.T) {
	s := segment.New(256, 4)
	g := s.Geometry(384, 303) // 256 x 202
	fg, bg := segment.Point{X: 192, Y: 151.5, Foreground: true}, segment.Point{X: 0, Y: 101, Foreground: false}
	box := &segment.Box{X0: 0, Y0: 0, X1: 384, Y1: 303}
	bgY := float32(101.0 * 202 / 303)
	for name, tc := range map[string]struct {
		p      segment.Prompts
		points []float32
		labels []int32
	}{
		"point":          {segment.Prompts{Points: []segment.Point{fg}}, []float32{128, 101, 0, 0}, []int32{1, -1}},
		"two points":     {segment.Prompts{Points: []segment.Point{fg, bg}}, []float32{128, 101, 0, bgY, 0, 0}, []int32{1, 0, -1}},
		"box":            {segment.Prompts{Box: box}, []float32{0, 0, 256, 202}, []int32{2, 3}},
		"points and box": {segment.Prompts{Points: []segment.Point{bg, fg}, Box: box}, []float32{0, bgY, 128, 101, 0, 0, 256, 202}, []int32{0, 1, 2, 3}},
	} {
		points, labels, err := s.Prompt(tc.p, g)
		if err != nil || !slices.Equal(points, tc.points) || !slices.Equal(labels, tc.labels) {
			t.Errorf("%s: %v %v, %v; want %v %v", name, points, labels, err, tc.points, tc.labels)
		}
	}
	at := func(x, y float64) segment.Prompts { return segment.Prompts{Points: []segment.Point{{X: x, Y: y}}} }
	frame := func(x0, y0, x1, y1 float64) segment.Prompts {
		return segment.Prompts{Box: &segment.Box{X0: x0, Y0: y0, X1: x1, Y1: y1}}
	}
	for name, tc := range map[string]struct {
		p    segment.Prompts
		want string
	}{
		"none":            {segment.Prompts{}, "no prompt"},
		"left":            {at(-1, 5), "point -1,5: is outside the image, which has 384 x 303 pixels; the last is 383,302"},
		"right":           {at(384.5, 5), "outside"},
		"right edge":      {at(384, 5), "outside the image, which has 384 x 303 pixels; the last is 383,302"},
		"lower edge":      {at(5, 303), "outside"},
		"above":           {at(5, -0.25), "outside"},
		"below":           {at(5, 304), "outside"},
		"NaN":             {at(math.NaN(), 5), "outside"},
		"infinite":        {at(5, math.Inf(1)), "outside"},
		"box outside":     {frame(5, 5, 400, 50), "box 5,5,400,50: is outside the image, which has 384 x 303 pixels; allowed are x from 0 to 384 and y from 0 to 303"},
		"box without x":   {frame(5, 5, 5, 50), "is empty"},
		"box upside down": {frame(5, 50, 50, 5), "is empty"},
		"box of NaN":      {frame(math.NaN(), 5, 50, 50), "is empty"},
		"too many points": {segment.Prompts{Points: []segment.Point{fg, fg, fg, fg}}, "4 points and one padding point; the artifact allows 4"},
		"too many":        {segment.Prompts{Points: []segment.Point{fg, fg, fg}, Box: box}, "two corners"},
	} {
		if _, _, err := s.Prompt(tc.p, g); !errors.Is(err, code.SegmentPrompt) || !strings.Contains(err.Error(), tc.want) || diag.ExitCode(err) != 2 {
			t.Errorf("%s: error %v, want one saying %q", name, err, tc.want)
		}
	}
}

func TestParse(t *testing.T) {
	for s, want := range map[string]segment.Point{"1,2": {1, 2, true}, " 1.5 , -2 ": {1.5, -2, true}, "1,2,1": {1, 2, true}, "1,2,0": {1, 2, false}} {
		if got, err := segment.ParsePoint(s); err != nil || got != want {
			t.Errorf("point %q: %v, %v", s, got, err)
		}
	}
	if got, err := segment.ParseBox("1,2,3,4.5"); err != nil || got != (segment.Box{X0: 1, Y0: 2, X1: 3, Y1: 4.5}) {
		t.Errorf("box: %v, %v", got, err)
	}
	for _, s := range []string{"", "1", "1,", "1,2,3", "1,2,0,0", "a,b", "NaN,1", "1,Inf", "1;2"} {
		if _, err := segment.ParsePoint(s); !errors.Is(err, code.SegmentPrompt) {
			t.Errorf("point %q: %v", s, err)
		}
	}
	for _, s := range []string{"", "1,2,3", "1,2,3,4,5", "1,2,3,x"} {
		if _, err := segment.ParseBox(s); !errors.Is(err, code.SegmentPrompt) {
			t.Errorf("box %q: %v", s, err)
		}
	}
}

func TestChoose(t *testing.T) {
	s := segment.New(8, 8)
	g := s.Geometry(8, 4)
	logits := []float32{1, -1, 2, -2} // one for each mask
	nan := float32(math.NaN())
	for name, tc := range map[string]struct {
		which string
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
		masks, err := s.Postprocess(logits, 1, 1, tc.iou, g, tc.which)
		if err != nil || len(masks) != len(tc.want) {
			t.Errorf("%s: %v, %v", name, masks, err)
			continue
		}
		for i, m := range masks {
			full := byte(0)
			if logits[tc.want[i]] > 0 {
				full = 255
			}
			if m.Token != tc.want[i] || m.Image.Bounds() != image.Rect(0, 0, 8, 4) || m.Image.Pix[0] != full || m.Image.Pix[31] != full {
				t.Errorf("%s: mask %d is token %d, %v", name, i, m.Token, m.Image.Pix)
			}
		}
	}
	for _, which := range []string{"", "4", "-1", "worst", "01", "+1", "1 "} {
		if _, err := s.Postprocess(logits, 1, 1, make([]float32, 4), g, which); !errors.Is(err, code.Mask) || diag.ExitCode(err) != 2 {
			t.Errorf("mask %q: %v", which, err)
		}
	}
	if _, err := s.Postprocess(logits, 1, 1, []float32{1, nan, nan, nan}, g, "best"); !errors.Is(err, code.NoBestMask) || diag.ExitCode(err) != 1 {
		t.Errorf("no best: %v", err)
	}
}

func TestGeometry(t *testing.T) {
	s := segment.New(1024, 64)
	for _, tc := range []struct{ w, h, sw, sh int }{
		{1024, 1024, 1024, 1024}, {1800, 1200, 1024, 683}, {1200, 1800, 683, 1024}, {100, 100, 1024, 1024}, {100000, 1, 1024, 1}, {1, 3000, 1, 1024},
	} {
		if g := s.Geometry(tc.w, tc.h); g.ScaledW != tc.sw || g.ScaledH != tc.sh {
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
	p := segment.Prompts{Points: []segment.Point{{X: 5, Y: 5, Foreground: true}, {X: 40, Y: 40}}, Box: &segment.Box{X0: 8, Y0: 8, X1: 32, Y1: 32}}
	out := segment.Overlay(photo, mask, p)
	if out.Bounds() != photo.Rect {
		t.Fatalf("bounds %v", out.Bounds())
	}
	for at, is := range map[image.Point]func(c color.NRGBA) bool{
		{35, 15}: func(c color.NRGBA) bool { return c == color.NRGBA{0, 0, 0, 255} },       // the image
		{20, 20}: func(c color.NRGBA) bool { return c.B > 100 && c.R < 30 },                // tint
		{10, 20}: func(c color.NRGBA) bool { return c == color.NRGBA{255, 255, 255, 255} }, // outline
		{5, 5}:   func(c color.NRGBA) bool { return c.G > 150 && c.R < 100 },               // foreground disc
		{39, 39}: func(c color.NRGBA) bool { return c.R > 150 && c.G < 100 },               // background disc, cut by the edge
		{20, 8}:  func(c color.NRGBA) bool { return c.G > 150 && c.R < 100 },               // box
	} {
		if c := out.NRGBAAt(at.X, at.Y); !is(c) {
			t.Errorf("at %v: %v", at, c)
		}
	}
	if photo.Pix[20*40+20] != 0 {
		t.Error("the photo was changed")
	}
}

func TestValidate(t *testing.T) {
	good := segment.New(1024, 64)
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(s *segment.Task){
		"size 0":       func(s *segment.Task) { s.Size = 0 },
		"size":         func(s *segment.Task) { s.Size = 1 << 20 },
		"resize":       func(s *segment.Task) { s.Resize = "stretch" },
		"pad":          func(s *segment.Task) { s.Pad = "" },
		"std 0":        func(s *segment.Task) { s.Std[1] = 0 },
		"std NaN":      func(s *segment.Task) { s.Std[2] = math.NaN() },
		"mean":         func(s *segment.Task) { s.Mean[0] = math.Inf(1) },
		"max points":   func(s *segment.Task) { s.MaxPoints = 1 },
		"many points":  func(s *segment.Task) { s.MaxPoints = 1 << 30 },
		"tokens":       func(s *segment.Task) { s.Tokens = 0 },
		"best last":    func(s *segment.Task) { s.BestLast = 4 },
		"best first":   func(s *segment.Task) { s.BestFirst = -1 },
		"best order":   func(s *segment.Task) { s.BestFirst = 3; s.BestLast = 2 },
		"threshold":    func(s *segment.Task) { s.Threshold = math.NaN() },
		"method":       func(s *segment.Task) { s.PromptMethod = "" },
		"image input":  func(s *segment.Task) { s.ImageInput = "" },
		"masks output": func(s *segment.Task) { s.MasksOutput = "" },
		"mask side":    func(s *segment.Task) { s.MaskInput = "mask" },
		"large mask":   func(s *segment.Task) { s.MaskInput, s.MaskSide = "mask", 1<<20 },
		"no mask":      func(s *segment.Task) { s.MaskSide = 4 },
		"max prompts":  func(s *segment.Task) { s.BatchMethod = "batch" },
		"many prompts": func(s *segment.Task) { s.BatchMethod, s.MaxPrompts = "batch", 1<<20 },
		"no batch":     func(s *segment.Task) { s.MaxPrompts = 4 },
	} {
		s := *good
		spoil(&s)
		if err := s.Validate(); !errors.Is(err, code.TaskSpec) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFields(t *testing.T) { tasktest.Fields(t, segment.Kind) }

// TestMaskLogits checks that white gives a high logit, and that black and the part outside the image give low ones.
func TestMaskLogits(t *testing.T) {
	s := segment.New(64, 4)
	s.MaskInput, s.MaskSide = "mask", 16
	img := image.NewGray(image.Rect(0, 0, 32, 16)) // its left half is white; scaled, it is 16 x 8 logits
	for i := range img.Pix {
		if i%32 < 16 {
			img.Pix[i] = 255
		}
	}
	got, err := s.MaskLogits(img, s.Geometry(32, 16))
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
	if _, err := s.MaskLogits(img, s.Geometry(16, 32)); !errors.Is(err, code.SegmentPrompt) {
		t.Errorf("a picture of another size: %v", err)
	}
	if back, err := s.MaskPrompt(segment.Prompts{Mask: got}); err != nil || len(back) != 256 {
		t.Errorf("%d logits, %v", len(back), err)
	}
	for _, bad := range []float64{math.NaN(), math.Inf(-1)} {
		mask := append([]float32{float32(bad)}, got[1:]...)
		if _, err := s.MaskPrompt(segment.Prompts{Mask: mask}); !errors.Is(err, code.SegmentPrompt) {
			t.Errorf("a mask with %v: %v", bad, err)
		}
	}
	if _, err := s.MaskPrompt(segment.Prompts{Mask: got[1:]}); !errors.Is(err, code.SegmentPrompt) {
		t.Errorf("a logit too few: %v", err)
	}
	if _, err := segment.New(64, 4).MaskPrompt(segment.Prompts{Mask: got}); !errors.Is(err, code.SegmentPrompt) {
		t.Errorf("a model without masks: %v", err)
	}
}
