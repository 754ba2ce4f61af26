package segment_test

import (
	"errors"
	"image"
	"math"
	"testing"

	"github.com/rlx-go/rlx/core/task/segment"
)

// logitsOf returns the logits [h,w] of one mask: v inside the box, -v outside.
func logitsOf(h, w int, v float32, x0, y0, x1, y1 int) (out []float32) {
	for i := range h * w {
		if y, x := i/w, i%w; x >= x0 && x < x1 && y >= y0 && y < y1 {
			out = append(out, v)
		} else {
			out = append(out, -v)
		}
	}
	return out
}

// small returns a task with two masks, either of which may be the best, for a square of 16 pixels.
func small() *segment.Task {
	s := segment.New(16, 4)
	s.Tokens, s.BestFirst, s.BestLast = 2, 0, 1
	return s
}

// TestCandidates checks that masks are kept if they have a high predicted quality, hardly depend on the threshold and are not
// empty, and that boxes are in pixels of the image.
func TestCandidates(t *testing.T) {
	s, o := small(), segment.Everything{Side: 2, MinIoU: 0.5, MinStability: 0.9, MaxOverlap: 0.7}
	g := s.Geometry(32, 16) // 16 x 8 in the square, so 8 x 4 of the 8 x 8 logits
	nan := float32(math.NaN())
	for name, c := range map[string]struct {
		first []float32
		iou   float32
		want  int

		dropped segment.Dropped
	}{
		"good":                 {logitsOf(8, 8, 5, 2, 1, 6, 3), 0.9, 1, segment.Dropped{Unstable: 1}},
		"poor":                 {logitsOf(8, 8, 5, 2, 1, 6, 3), 0.4, 0, segment.Dropped{Poor: 1, IoU: 0.4, Stability: 1, Unstable: 1}},
		"of no quality":        {logitsOf(8, 8, 5, 2, 1, 6, 3), nan, 0, segment.Dropped{Poor: 1, Unstable: 1}},
		"unstable":             {logitsOf(8, 8, 0.5, 2, 1, 6, 3), 0.9, 0, segment.Dropped{Unstable: 2, IoU: 0.9}},
		"empty":                {logitsOf(8, 8, 5, 0, 0, 0, 0), 0.9, 0, segment.Dropped{Unstable: 2}},
		"in the padding alone": {logitsOf(8, 8, 5, 0, 4, 8, 8), 0.9, 0, segment.Dropped{Unstable: 2}},
	} {
		logits := append(c.first, make([]float32, 64)...) // the second mask is unstable
		var d segment.Dropped
		got := s.Candidates(logits, 8, 8, []float32{c.iou, 1}, g, o, segment.Point{}, &d)
		if d.Poor != c.dropped.Poor || d.Unstable != c.dropped.Unstable || d.IoU != c.dropped.IoU || d.Stability != c.dropped.Stability {
			t.Errorf("%s: dropped %+v; want %+v", name, d, c.dropped)
		}
		if len(got) != c.want {
			t.Errorf("%s: %d masks; want %d", name, len(got), c.want)
		} else if c.want == 1 && (got[0].Box != [4]int{8, 4, 24, 12} || got[0].Area != 8 || got[0].Token != 0) {
			t.Errorf("%s: %+v", name, got[0])
		}
	}
}

// TestDistinct checks that the best of several regions with nearly equal boxes is kept, and that the largest region is number 1.
func TestDistinct(t *testing.T) {
	o := segment.Everything{MaxOverlap: 0.7}
	got := o.Distinct([]segment.Region{
		{Box: [4]int{0, 0, 10, 10}, Area: 90, IoU: 0.8}, {Box: [4]int{0, 0, 10, 9}, Area: 80, IoU: 0.9}, // their IoU is 0.9
		{Box: [4]int{0, 0, 10, 6}, Area: 60, IoU: 0.7}, // IoU 0.67 with the second
		{Box: [4]int{20, 20, 40, 40}, Area: 300, IoU: 0.6},
	})
	if len(got) != 3 || got[0].Area != 300 || got[1].Area != 80 || got[2].Area != 60 || got[0].Label != 1 || got[2].Label != 3 {
		t.Errorf("%+v", got)
	}
}

// TestDraw checks that the image has the label of a region, and that the region has the area and box of its mask.
func TestDraw(t *testing.T) {
	s := small()
	g := s.Geometry(16, 16)
	labels := image.NewGray16(image.Rect(0, 0, 16, 16))
	r := segment.Region{Label: 300, Token: 1}
	s.Draw(labels, &r, append(make([]float32, 256), logitsOf(16, 16, 5, 3, 4, 9, 12)...), 16, 16, g)
	if r.Area != 48 || r.Box != [4]int{3, 4, 9, 12} || labels.Gray16At(3, 4).Y != 300 || labels.Gray16At(9, 4).Y != 0 {
		t.Errorf("%+v", r)
	}
	s.Draw(labels, &r, make([]float32, 512), 16, 16, g)
	if r.Area != 0 || r.Box != [4]int{} {
		t.Errorf("an empty mask: %+v", r)
	}
}

func TestEverything(t *testing.T) {
	o := segment.EverythingDefault
	p := o.Points(64, 32)
	if err := o.Validate(); err != nil || len(p) != 1024 || p[0] != (segment.Point{X: 1, Y: 0.5, Foreground: true}) || p[1023] != (segment.Point{X: 63, Y: 31.5, Foreground: true}) {
		t.Errorf("%v, %d points: %v to %v", err, len(p), p[0], p[1023])
	}
	for _, bad := range []segment.Everything{{}, {Side: 129}, {Side: 2, MinIoU: 1.1}, {Side: 2, MinStability: -1}, {Side: 2, MaxOverlap: math.NaN()}} {
		if err := bad.Validate(); !errors.Is(err, segment.CodePrompt) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
