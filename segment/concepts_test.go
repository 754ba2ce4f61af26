package segment_test

import (
	"encoding/json"
	"errors"
	"image"
	"image/draw"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/internal/rlxtest"
	"github.com/rlx-go/rlx/internal/synth"
	"github.com/rlx-go/rlx/segment"
)

// sam3 and sam3Clicks return the SAM 3 of a golden case with a tokenizer, compiled once, the second with the tracker.
var (
	sam3 = sync.OnceValues(func() (string, error) {
		return compiledSAM3("sam3", "sam3_concepts/config.json", "sam3_concepts")
	})
	sam3Clicks = sync.OnceValues(func() (string, error) {
		return compiledSAM3("sam3clicks", "sam3_clicks/config.json", "sam3_concepts", "sam3_clicks")
	})
)

func compiledSAM3(name, config string, manifests ...string) (string, error) {
	const goldens = "../testdata/goldens/"
	var es []synth.Entry
	for _, m := range manifests {
		part, err := synth.ReadManifest(goldens + m + "/manifest.json")
		if err != nil {
			return "", err
		}
		es = append(es, part...)
	}
	checkpoint := rlxtest.Scratch(name + ".safetensors")
	if err := synth.Write(checkpoint, es, dtype.F32); err != nil {
		return "", err
	}
	tokenizer, err := os.ReadFile(goldens + "sam3_tiny/tokenizer.json")
	if err == nil {
		err = os.WriteFile(filepath.Join(filepath.Dir(checkpoint), "tokenizer.json"), tokenizer, 0o666)
	}
	path := rlxtest.Scratch(name + ".rlx")
	if err == nil {
		rlxtest.Compile(path, checkpoint, "--model-config", goldens+config, "--target", "cpu")
	}
	return path, err
}

// finder returns a Finder of the golden case.
func finder(t *testing.T) *segment.Finder {
	t.Helper()
	return finderOf(t, sam3)
}

func finderOf(t *testing.T, compiled func() (string, error)) *segment.Finder {
	t.Helper()
	path, err := compiled()
	if err != nil {
		t.Fatal(err)
	}
	model, err := rlx.Open(t.Context(), path, rlx.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { model.Close() })
	f, err := segment.NewFinder(rlxtest.Session(t, model, rlx.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// goldenConcept is a prompt and what Transformers finds with it.
type goldenConcept struct {
	Text      string       `json:"text"`
	Boxes     [][4]float64 `json:"boxes"`
	Labels    []int        `json:"labels"`
	Threshold float64      `json:"threshold"`
	Scores    []float64    `json:"scores"` // of all queries
	Objects   []struct {
		Score float64     `json:"score"`
		Box   [4]float64  `json:"box"`
		Mask  segment.RLE `json:"mask"`
	} `json:"objects"`
}

func (g goldenConcept) concept() segment.Concept {
	c := segment.Concept{Text: g.Text}
	for i, b := range g.Boxes {
		c.Examples = append(c.Examples, segment.Example{Box: segment.Box{X0: b[0], Y0: b[1], X1: b[2], Y1: b[3]},
			Negative: g.Labels[i] == 0})
	}
	return c
}

// overlap returns the IoU of two masks.
func overlap(t *testing.T, a, b segment.RLE) float64 {
	t.Helper()
	x, errX := a.Mask()
	y, errY := b.Mask()
	if errX != nil || errY != nil || x.Rect != y.Rect {
		t.Fatal(errX, errY)
	}
	both, either := 0, 0
	for i, v := range x.Pix {
		if v != 0 && y.Pix[i] != 0 {
			both++
		}
		if v != 0 || y.Pix[i] != 0 {
			either++
		}
	}
	return float64(both) / float64(either)
}

// TestFinder compares the objects of a photograph with those of Transformers' processor and model: which there are, in
// which order, their scores, boxes and masks.
func TestFinder(t *testing.T) {
	raw, err := os.ReadFile("../testdata/goldens/sam3_concepts/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []goldenConcept
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	f := finder(t)
	scene, err := f.Encode(t.Context(), open(t, "../demo/coins.png"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		name := strings.TrimSpace(c.Text + " " + strings.Repeat("+box", len(c.Boxes)))
		found, err := scene.Find(t.Context(), c.concept(), c.Threshold)
		if err != nil {
			t.Fatal(err)
		}
		if len(found.Objects) != len(c.Objects) {
			t.Fatalf("%s: %d objects; want %d", name, len(found.Objects), len(c.Objects))
		}
		worst := [3]float64{0, 0, 1} // score, box, IoU
		for i, want := range c.Objects {
			got := found.Objects[i]
			worst[0] = max(worst[0], math.Abs(float64(got.Score)-want.Score))
			for j, v := range got.Box {
				worst[1] = max(worst[1], math.Abs(float64(v)-want.Box[j]))
			}
			worst[2] = min(worst[2], overlap(t, got.Mask, want.Mask))
		}
		t.Logf("%s: %d objects; scores within %.2g, boxes within %.2g px, IoU at least %.5f", name, len(c.Objects),
			worst[0], worst[1], worst[2])
		if worst[0] > 5e-4 || worst[1] > 0.05 || worst[2] < 0.999 { // a few pixels differ by one
			t.Errorf("%s: scores within %v, boxes within %v px, IoU %v", name, worst[0], worst[1], worst[2])
		}
		checkLabels(t, found)
		if found, err = scene.Find(t.Context(), c.concept(), 0); err != nil || len(found.Objects) != len(c.Scores) {
			t.Fatalf("%s: %d objects without a threshold, %v; want %d", name, len(found.Objects), err, len(c.Scores))
		}
		for i, o := range found.Objects {
			if d := math.Abs(float64(o.Score) - c.Scores[i]); d > 2e-5 {
				t.Errorf("%s: score %d is %v; want %v", name, i, o.Score, c.Scores[i])
			}
		}
	}
}

// checkLabels checks that the label image shows the smallest object at each pixel.
func checkLabels(t *testing.T, found *segment.Found) {
	t.Helper()
	var masks []*image.Gray
	visible := make([]int, len(found.Objects)+1)
	for i, o := range found.Objects {
		m, err := o.Mask.Mask()
		if err != nil {
			t.Fatal(err)
		}
		masks = append(masks, m)
		if o.Label != i+1 {
			t.Errorf("object %d has label %d", i, o.Label)
		}
	}
	wrong := 0
	for y := range found.Labels.Rect.Dy() {
		for x := range found.Labels.Rect.Dx() {
			want := 0
			for i, m := range masks {
				if m.GrayAt(x, y).Y != 0 && (want == 0 || found.Objects[i].Area < found.Objects[want-1].Area) {
					want = i + 1
				}
			}
			if int(found.Labels.Gray16At(x, y).Y) != want {
				wrong++
			}
			visible[want]++
		}
	}
	if wrong > 0 {
		t.Errorf("%d pixels have a wrong label", wrong)
	}
	for i, o := range found.Objects {
		if o.Visible != visible[i+1] {
			t.Errorf("object %d: %d visible pixels; want %d", i, o.Visible, visible[i+1])
		}
	}
}

// TestFinderRefuses checks prompts that mean nothing.
func TestFinderRefuses(t *testing.T) {
	f := finder(t)
	box := func(x0, y0, x1, y1 float64) segment.Concept {
		return segment.Concept{Examples: []segment.Example{{Box: segment.Box{X0: x0, Y0: y0, X1: x1, Y1: y1}}}}
	}
	for _, c := range []struct {
		concept   segment.Concept
		threshold float64
		want      string
	}{
		{segment.Concept{}, 0.3, "text: is missing"},
		{segment.Concept{Text: " \t"}, 0.3, `text: is empty: " \t" has no words`},
		{segment.Concept{Text: strings.Repeat("coin ", 31)}, 0.3,
			"text: has 33 tokens, with those of its begin and end; the model takes up to 32"},
		{segment.Concept{Text: "\xff"}, 0.3, "text: "},
		{segment.Concept{Text: "coin"}, 1.5, "threshold: is 1.5; allowed are 0 to 1"},
		{segment.Concept{Text: "coin"}, math.NaN(), "threshold: is NaN; allowed are 0 to 1"},
		{box(5, 5, 5, 9), 0.3, "box 5,5,5,9: is empty"},
		{box(5, 5, 400, 9), 0.3, "box 5,5,400,9: is outside the image, which has 384 x 303 pixels"},
		{box(5, math.NaN(), 9, 9), 0.3, "is empty"},
		{segment.Concept{Examples: make([]segment.Example, 17)}, 0.3, "17 examples; the model takes up to 16"},
	} {
		if err := f.Check(c.concept, c.threshold, image.Pt(384, 303)); !errors.Is(err, segment.ErrPrompt) ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%v; want %q", err, c.want)
		}
	}
	if err := f.Check(segment.Concept{Text: strings.Repeat("coin ", 30)}, 0, image.Pt(384, 303)); err != nil {
		t.Error(err)
	}
}

// TestFinderClicks finds single objects at a point and in a box, and all objects of a text, in an image that is encoded
// once. The masks are compared with those of Transformers, which rounds some pixels of the image differently.
func TestFinderClicks(t *testing.T) {
	if finder(t).Clicks() != nil {
		t.Error("a model without the tracker takes clicks")
	}
	f := finderOf(t, sam3Clicks)
	scene, err := f.Encode(t.Context(), open(t, "../demo/coins.png"))
	if err != nil {
		t.Fatal(err)
	}
	point := []segment.Point{{X: 100, Y: 140, Foreground: true}}
	for name, c := range map[string]struct {
		prompts segment.Prompts
		choice  segment.Choice
	}{
		"point": {segment.Prompts{Points: point}, segment.Best},
		"box":   {segment.Prompts{Points: point, Box: &segment.Box{X0: 60, Y0: 40, X1: 200, Y1: 160}}, "0"},
	} {
		masks, err := scene.Image.Masks(t.Context(), c.prompts, c.choice)
		if err != nil {
			t.Fatal(err)
		}
		want := image.NewGray(masks[0].Image.Rect)
		draw.Draw(want, want.Rect, open(t, "testdata/sam3."+name+".png"), image.Point{}, draw.Src)
		same := overlap(t, segment.EncodeRLE(masks[0].Image), segment.EncodeRLE(want))
		t.Logf("%s: IoU %.5f with the mask of Transformers", name, same)
		if same < 0.999 {
			t.Errorf("%s: IoU %v with the mask of Transformers", name, same)
		}
	}
	found, err := scene.Find(t.Context(), segment.Concept{Text: "coin"}, 0.3)
	if err != nil || len(found.Objects) != 6 {
		t.Errorf("%v, %v; want 6 objects", found, err)
	}
	one, err := f.Clicks().Encode(t.Context(), open(t, "../demo/coins.png"))
	if err != nil || !slices.Equal(one.Embedding.Data, scene.Image.Embedding.Data) || len(one.Features) != 2 {
		t.Errorf("an image that is encoded for clicks alone differs: %v", err)
	}
}
