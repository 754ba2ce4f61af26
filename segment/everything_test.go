package segment

import (
	"errors"
	"image"
	"math"
	"testing"
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
func small() *spec {
	s := newSpec(16, 4)
	s.Tokens, s.BestFirst, s.BestLast = 2, 0, 1
	return s
}

// TestCandidates checks that masks are kept if they have a high predicted quality, hardly depend on the threshold and
// are not empty, and that boxes are in pixels of the image.
func TestCandidates(t *testing.T) {
	s, o := small(), EverythingOptions{Side: 2, MinIoU: 0.5, MinStability: 0.9, MaxOverlap: 0.7}
	g := s.geometry(32, 16) // 16 x 8 in the square, so 8 x 4 of the 8 x 8 logits
	nan := float32(math.NaN())
	for name, c := range map[string]struct {
		first []float32
		iou   float32
		want  int

		dropped Dropped
	}{
		"good": {logitsOf(8, 8, 5, 2, 1, 6, 3), 0.9, 1, Dropped{Unstable: 1}},
		"poor": {logitsOf(8, 8, 5, 2, 1, 6, 3), 0.4, 0,
			Dropped{Poor: 1, IoU: 0.4, Stability: 1, Unstable: 1}},
		"of no quality":        {logitsOf(8, 8, 5, 2, 1, 6, 3), nan, 0, Dropped{Poor: 1, Unstable: 1}},
		"unstable":             {logitsOf(8, 8, 0.5, 2, 1, 6, 3), 0.9, 0, Dropped{Unstable: 2, IoU: 0.9}},
		"empty":                {logitsOf(8, 8, 5, 0, 0, 0, 0), 0.9, 0, Dropped{Unstable: 2}},
		"in the padding alone": {logitsOf(8, 8, 5, 0, 4, 8, 8), 0.9, 0, Dropped{Unstable: 2}},
	} {
		logits := append(c.first, make([]float32, 64)...) // the second mask is unstable
		var d Dropped
		got := s.candidates(logits, 8, 8, []float32{c.iou, 1}, g, o, Point{}, &d)
		if d.Poor != c.dropped.Poor || d.Unstable != c.dropped.Unstable || d.IoU != c.dropped.IoU ||
			d.Stability != c.dropped.Stability {
			t.Errorf("%s: dropped %+v; want %+v", name, d, c.dropped)
		}
		if len(got) != c.want {
			t.Errorf("%s: %d masks; want %d", name, len(got), c.want)
		} else if c.want == 1 && (got[0].Box != [4]int{8, 4, 24, 12} || got[0].Area != 8 || got[0].Token != 0) {
			t.Errorf("%s: %+v", name, got[0])
		}
	}
}

// TestDraw checks that the image has the label of a region where no other region is, and that the region has the area
// and box of its mask.
func TestDraw(t *testing.T) {
	s := small()
	g := s.geometry(16, 16)
	labels := image.NewGray16(image.Rect(0, 0, 16, 16))
	logits := append(logitsOf(16, 16, 5, 2, 4, 9, 12), logitsOf(16, 16, 5, 3, 4, 9, 12)...)
	r := Region{Label: 300, Token: 1}
	s.draw(labels, &r, logits, 16, 16, g)
	if r.Area != 48 || r.Visible != 48 || r.Box != [4]int{3, 4, 9, 12} || labels.Gray16At(3, 4).Y != 300 ||
		labels.Gray16At(9, 4).Y != 0 {
		t.Errorf("%+v", r)
	}
	around := Region{Label: 301}
	s.draw(labels, &around, logits, 16, 16, g)
	if around.Area != 56 || around.Visible != 8 || around.Box != [4]int{2, 4, 9, 12} ||
		labels.Gray16At(2, 4).Y != 301 || labels.Gray16At(3, 4).Y != 300 {
		t.Errorf("a larger region: %+v", around)
	}
	s.draw(labels, &around, logits, 16, 16, g)
	if around.Area != 56 || around.Visible != 0 {
		t.Errorf("a hidden region: %+v", around)
	}
	s.draw(labels, &r, make([]float32, 512), 16, 16, g)
	if r.Area != 0 || r.Visible != 0 || r.Box != [4]int{} {
		t.Errorf("an empty mask: %+v", r)
	}
}

// TestNumber checks that a region with only a seam left gives its pixels to the region behind it, and that the label
// image has each region's visible pixels, the largest region as number 1.
func TestNumber(t *testing.T) {
	s := newSpec(128, 4)
	s.Tokens, s.BestFirst, s.BestLast = 1, 0, 0
	g := s.geometry(128, 128)
	labels := image.NewGray16(image.Rect(0, 0, 128, 128))
	// the third is the first two and a seam
	boxes := [][4]int{{10, 10, 50, 50}, {51, 10, 91, 50}, {10, 10, 91, 50}, {0, 0, 128, 64}}
	all := make([]Region, len(boxes))
	for i, b := range boxes {
		all[i].Label = i + 1
		s.draw(labels, &all[i], logitsOf(128, 128, 5, b[0], b[1], b[2], b[3]), 128, 128, g)
	}
	var d Dropped
	got := number(labels, all, &d)
	if len(got) != 3 || d.Hidden != 1 || got[0].Area != 128*64 || got[0].Visible != 128*64-2*1600 ||
		got[1].Box != boxes[1] || got[2].Box != boxes[0] {
		t.Errorf("%+v, dropped %+v", got, d)
	}
	count := map[int]int{}
	for i := range 128 * 128 {
		count[int(labels.Gray16At(i%128, i/128).Y)]++
	}
	for i, r := range got {
		if r.Label != i+1 || count[r.Label] != r.Visible {
			t.Errorf("region %d has label %d, of which the image has %d pixels: %+v", i, r.Label, count[r.Label], r)
		}
	}
	if len(count) != 4 {
		t.Errorf("the image has labels %v", count)
	}
}

func TestEverything(t *testing.T) {
	o := defaults
	p := o.points(64, 32)
	if err := o.Check(); err != nil || len(p) != 1024 || p[0] != (Point{X: 1, Y: 0.5, Foreground: true}) ||
		p[1023] != (Point{X: 63, Y: 31.5, Foreground: true}) {
		t.Errorf("%v, %d points: %v to %v", err, len(p), p[0], p[1023])
	}
	for _, bad := range []EverythingOptions{{Side: -1}, {Side: 129}, {Side: 2, MinIoU: 1.1}, {MinStability: 2},
		{Side: 2, MaxOverlap: math.NaN()}} {
		if err := bad.Check(); !errors.Is(err, ErrPrompt) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if got, want := (EverythingOptions{Side: 4, MinIoU: -1}).explicit(),
		(EverythingOptions{4, 0, DefaultMinStability, DefaultMaxOverlap}); got != want {
		t.Errorf("%+v; want %+v", got, want)
	}
}
