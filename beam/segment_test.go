package rlxbeam_test

import (
	"fmt"
	"image"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	rlxbeam "github.com/rlx-go/rlx/beam"
	"github.com/rlx-go/rlx/internal/rlxtest"
	"github.com/rlx-go/rlx/segment"
)

// copyFile copies a file of the demo.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o777)
	}
	if err == nil {
		err = os.WriteFile(to, b, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
}

var prompts = []segment.Prompts{
	{Points: []segment.Point{{X: 128, Y: 128, Foreground: true}}},
	{Points: []segment.Point{{X: 60, Y: 40, Foreground: true}, {X: 10, Y: 10}}},
	{Box: &segment.Box{X0: 40, Y0: 40, X1: 160, Y1: 150}},
}

const promptsFile = `[{"points": [[128,128]]}, {"points": [[60,40], [10,10,0]]}, {"box": [40,40,160,150]}]`

// TestSegment compares with what rlxrun --images writes, and checks that broken images are dead letters.
func TestSegment(t *testing.T) {
	dir := t.TempDir()
	copyFile(t, "demo/scene1.png", filepath.Join(dir, "in/scene1.png"))
	copyFile(t, "demo/coins.png", filepath.Join(dir, "in/coins.png"))
	copyFile(t, "demo/README.md", filepath.Join(dir, "in/text.png"))
	if err := os.WriteFile(filepath.Join(dir, "p.json"), []byte(promptsFile), 0o666); err != nil {
		t.Fatal(err)
	}
	rlxrun := program(t, "rlxrun")
	for _, c := range []struct {
		name  string
		flags []string
		o     rlxbeam.SegmentOptions
	}{
		{"prompts", []string{"--points-file", filepath.Join(dir, "p.json")}, rlxbeam.SegmentOptions{Prompts: prompts}},
		{"everything", []string{"--everything", "--grid", "6", "--min-iou", "0.3", "--min-stability", "0.3", "--object-masks"},
			rlxbeam.SegmentOptions{Everything: true, ObjectMasks: true, Objects: segment.EverythingOptions{Side: 6,
				MinIoU: 0.3, MinStability: 0.3, MaxOverlap: segment.DefaultMaxOverlap}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			want, got := filepath.Join(dir, c.name+"-rlxrun"), filepath.Join(dir, c.name)
			args := append([]string{rlxtest.SAM(), "--images", filepath.Join(dir, "in"), "-o", want}, c.flags...)
			// The broken image makes rlxrun fail, after it has written the others.
			if out, err := exec.Command(rlxrun, args...).CombinedOutput(); err == nil || !strings.Contains(string(out), "text.png") {
				t.Fatalf("rlxrun: %v\n%s", err, out)
			}
			c.o.Done = got
			for _, round := range []string{"first", "second"} {
				counts := run(t, func(s beam.Scope) {
					images, unread := rlxbeam.ReadImages(s, filepath.Join(dir, "in"), "**")
					found, failed := rlxbeam.Segment(s, rlxbeam.Model{Path: rlxtest.SAM()}, c.o, images)
					rlxbeam.WriteFolders(s, got, found)
					keep(t, s, "failed", beam.Flatten(s, failed, unread))
				})
				same(t, round, tree(t, got), tree(t, want))
				skipped := map[string]int64{"first": 0, "second": 2}[round]
				if counts["elements"] != 3 || counts["failures"] != 1 || counts["skipped"] != skipped {
					t.Errorf("%s: metrics %v", round, counts)
				}
				failed := elementsOf(t, "failed", failureName)
				if len(failed) != 1 || failed[0].Name != "text.png" || failed[0].Kind != "image" || failed[0].Code == "" {
					t.Errorf("%s: failures %+v", round, failed)
				}
			}
		})
	}
}

// TestSetup checks that what is wrong with the model or the options ends the pipeline, instead of each image.
func TestSetup(t *testing.T) {
	cpu()
	for _, c := range []struct {
		name  string
		model rlxbeam.Model
		o     rlxbeam.SegmentOptions
		want  string
	}{
		{"no prompts", rlxbeam.Model{Path: rlxtest.SAM()}, rlxbeam.SegmentOptions{}, "neither is"},
		{"no such mask", rlxbeam.Model{Path: rlxtest.SAM(), Threads: 1},
			rlxbeam.SegmentOptions{Prompts: prompts, Choice: "9"}, "9"},
		{"no artifact", rlxbeam.Model{Path: "/nowhere.rlx"}, rlxbeam.SegmentOptions{Prompts: prompts}, "nowhere.rlx"},
	} {
		p, s := beam.NewPipelineWithRoot()
		images := beam.Create(s, rlxbeam.Image{Name: "a.png", Data: []byte("x")})
		rlxbeam.Segment(s, c.model, c.o, images)
		if _, err := beam.Run(t.Context(), "prism", p); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want an error with %q", c.name, err, c.want)
		}
	}
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern string
		yes, no []string
	}{
		{"*", []string{"a.png"}, []string{"b/a.png"}},
		{"**", []string{"a.png", "b/a.png", "c/b/a.png"}, nil},
		{"**/*.png", []string{"a.png", "b/a.png"}, []string{"b/a.jpg"}},
		{"b/**/x[0-9].png", []string{"b/x1.png", "b/c/d/x2.png"}, []string{"x1.png", "b/xa.png", "c/b/x1.png"}},
	} {
		for _, name := range slices.Concat(c.yes, c.no) {
			if ok, err := rlxbeam.Matches(c.pattern, name); err != nil || ok != slices.Contains(c.yes, name) {
				t.Errorf("%s and %s: %v, %v", c.pattern, name, ok, err)
			}
		}
	}
	if _, err := rlxbeam.Matches("[", "a"); err == nil {
		t.Error("a malformed pattern gives no error")
	}
}

// scenes writes images: the demo's scene, shifted, each with other masks.
func scenes(t *testing.T, dir string, n int) {
	t.Helper()
	f, err := os.Open("demo/scene1.png")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, _, err := image.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	b := img.Bounds()
	for i := range n {
		shifted := image.NewNRGBA(b)
		for y := range b.Dy() {
			for x := range b.Dx() {
				shifted.Set(x, y, img.At(b.Min.X+(x+7*i)%b.Dx(), b.Min.Y+(y+3*i)%b.Dy()))
			}
		}
		path := filepath.Join(dir, fmt.Sprintf("%d/scene%02d.png", i%3, i))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		out, err := os.Create(path)
		if err == nil {
			err = png.Encode(out, shifted)
			out.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
