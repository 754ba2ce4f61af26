package segment_test

import (
	"image"
	"image/color"
	"slices"
	"testing"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/rlxtest"
	"github.com/rlx-go/rlx/internal/tinymodel"
	"github.com/rlx-go/rlx/segment"
)

// TestEncodedImage runs the task on a model with known masks. The left half of the image is bright. Mask 0 is that
// half, 1 the dark one, 2 everything, 3 nothing. The best is 2, which has the highest quality of 1 to 3.
func TestEncodedImage(t *testing.T) {
	img := image.NewNRGBA(image.Rect(0, 0, 32, 16))
	for i := range 32 * 16 {
		c := color.NRGBA{A: 255}
		if i%32 < 16 {
			c.R = 255
		}
		img.Set(i%32, i/32, c)
	}
	m := rlxtest.Open(
		t, rlxtest.Artifact(t, tinymodel.Task(), tinymodel.Program(t, tinymodel.Encode, "cpu"),
			tinymodel.Program(t, tinymodel.Decode, "cpu")))
	g, err := segment.New(rlxtest.Session(t, m, rlx.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	e, err := g.Encode(t.Context(), img)
	if err != nil {
		t.Fatal(err)
	}
	p := segment.Prompts{Points: []segment.Point{{X: 3, Y: 3, Foreground: true}, {X: 20, Y: 3}}}
	for which, want := range map[segment.Choice][]int{"": {512}, segment.Best: {512}, "0": {256}, "1": {256}, "3": {0},
		segment.All: {256, 256, 512, 0}} {
		masks, err := e.Masks(t.Context(), p, which)
		if err != nil {
			t.Fatal(err)
		}
		var inside []int
		for _, m := range masks {
			n := 0
			for _, v := range m.Image.Pix {
				n += int(v) / 255
			}
			inside = append(inside, n)
		}
		if !slices.Equal(inside, want) {
			t.Errorf("%s: masks of %v pixels; want %v", which, inside, want)
		}
		switch which {
		case "0":
			if g := masks[0].Image; g.GrayAt(2, 8).Y != 255 || g.GrayAt(29, 8).Y != 0 {
				t.Error("mask 0 is not the bright half")
			}
		case segment.Best:
			if masks[0].Token != 2 || masks[0].IoU != 0.9 {
				t.Errorf("best is mask %d of quality %v", masks[0].Token, masks[0].IoU)
			}
		}
	}
	// Only the mask of everything has a good predicted quality, and each point finds it.
	all, err := e.Everything(t.Context(), segment.EverythingOptions{Side: 3, MinIoU: 0.8, MinStability: -1})
	if err != nil {
		t.Fatal(err)
	}
	if all.Dropped.Poor == 0 || all.Dropped.IoU >= 0.8 || all.Dropped.Unstable != 0 {
		t.Errorf("everything dropped %+v", all.Dropped)
	}
	if len(all.Regions) != 1 || all.Regions[0].Area != 512 || all.Regions[0].Box != [4]int{0, 0, 32, 16} ||
		all.Labels.Gray16At(31, 15).Y != 1 {
		t.Errorf("everything is %+v", all.Regions)
	}
	for what, f := range map[string]func() error{
		"a large grid": func() error {
			_, err := e.Everything(t.Context(), segment.EverythingOptions{Side: 129})
			return err
		},
		"no such mask": func() error { _, err := e.Masks(t.Context(), p, "4"); return err },
		"no prompt":    func() error { _, err := e.Masks(t.Context(), segment.Prompts{}, "0"); return err },
		"a point outside": func() error {
			_, err := e.Masks(t.Context(), segment.Prompts{Points: []segment.Point{{X: 32}}}, "0")
			return err
		},
	} {
		rlxtest.WantError(t, what, f(), rlx.ErrUsage)
	}
	_, err = segment.New(
		rlxtest.Session(t, rlxtest.Open(t, rlxtest.Artifact(t, nil, tinymodel.Program(t, tinymodel.Encode, "cpu"))),
			rlx.Options{}))
	rlxtest.WantError(t, "a model without the task", err, rlx.ErrUsage)
}
