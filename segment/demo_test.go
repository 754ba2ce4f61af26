package segment_test

import (
	"image"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/rlxtest"
	"github.com/rlx-go/rlx/segment"
)

// TestEverythingDemo finds all objects of the demo's scene. The striped ellipse is found by many points. Some of those
// masks have a few stray pixels far away, so their boxes differ. The test checks that it is one region, that no two
// masks have an IoU above the bound, that the label image and the regions agree, and that a second search gives the
// same.
func TestEverythingDemo(t *testing.T) {
	in, err := os.Open("../demo/scene1.png")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	img, err := segment.DecodeImage(in)
	if err != nil {
		t.Fatal(err)
	}
	model, err := rlx.Open(t.Context(), rlxtest.SAM(), rlx.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	s := rlxtest.Session(t, model, rlx.Options{})
	segmenter, err := segment.New(s)
	if err != nil {
		t.Fatal(err)
	}
	e, err := segmenter.Encode(t.Context(), img)
	if err != nil {
		t.Fatal(err)
	}
	o := segment.EverythingOptions{MaxOverlap: segment.DefaultMaxOverlap}
	o.Side = 8 // enough points for the duplicates
	found, err := e.Everything(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var areas []int
	done := 0.0
	if _, err := e.EverythingMasks(t.Context(), o, func(mask *image.Gray) error {
		area, _, err := segment.EncodeRLE(mask).Measure()
		areas = append(areas, area)
		return err
	}, func(share float64) {
		if share < done || share > 1 {
			t.Errorf("%v of the work are done after %v", share, done)
		}
		done = share
	}); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(areas)
	for i, r := range found.Regions {
		if len(areas) != len(found.Regions) || areas[i] != r.Area {
			t.Fatalf("masks of %v pixels; the regions are %+v", areas, found.Regions)
		}
	}
	if again, err := e.Everything(t.Context(), o); err != nil || !reflect.DeepEqual(again, found) {
		t.Errorf("a second search gives %+v, %v; the first gave %+v", again, err, found)
	}
	if len(found.Regions) != 3 || found.Dropped.Same == 0 || found.Dropped.Hidden != 0 { // a duplicate would be hidden
		t.Errorf("%d regions: %+v, dropped %+v; want 3", len(found.Regions), found.Regions, found.Dropped)
	}

	var masks []*image.Gray
	for i, r := range found.Regions {
		m, err := e.Masks(t.Context(), segment.Prompts{Points: []segment.Point{r.Point}}, segment.All)
		if err != nil {
			t.Fatal(err)
		}
		mask := m[r.Token].Image
		for k, other := range masks {
			both, either := 0, 0
			for p, v := range mask.Pix {
				both += int(v&other.Pix[p]) / 255
				either += int(v|other.Pix[p]) / 255
			}
			if iou := float64(both) / float64(either); iou > o.MaxOverlap {
				t.Errorf("regions %d and %d have an IoU of %.3f", k+1, i+1, iou)
			}
		}
		masks = append(masks, mask)
	}
	// A pixel has the highest label of the masks that cover it.
	area, visible := make([]int, len(masks)+1), make([]int, len(masks)+1)
	for y := range 256 {
		for x := range 256 {
			want := 0
			for i, m := range masks {
				if m.GrayAt(x, y).Y != 0 {
					want = i + 1
					area[want]++
				}
			}
			visible[want]++
			if got := int(found.Labels.Gray16At(x, y).Y); got != want {
				t.Fatalf("pixel %d,%d has label %d; want %d", x, y, got, want)
			}
		}
	}
	for i, r := range found.Regions {
		if r.Label != i+1 || r.Area != area[r.Label] || r.Visible != visible[r.Label] {
			t.Errorf("region %d is %+v; its mask has %d pixels, the label image %d", i+1, r, area[r.Label],
				visible[r.Label])
		}
	}
	// The logits of a mask are a first guess for the same object.
	p := segment.Prompts{Points: []segment.Point{found.Regions[0].Point}}
	first, err := e.Masks(t.Context(), p, segment.Best)
	if err != nil {
		t.Fatal(err)
	}
	p.Mask = first[0].Logits
	side := segmenter.Facts().MaskSide
	refined, err := e.Masks(t.Context(), p, segment.Best)
	if err != nil || len(p.Mask) != side*side || slices.Equal(refined[0].Logits, p.Mask) {
		t.Errorf("a guess of %d logits: %v; want a mask that it changes", len(p.Mask), err)
	}
}
