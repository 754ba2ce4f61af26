package main

import (
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/tinymodel"
	"github.com/rlx-go/rlx/task"
)

// TestPatches runs a model that adds the values of each patch, as its embedding.
func TestPatches(t *testing.T) {
	img := image.NewGray(image.Rect(0, 0, 8, 4)) // two blocks
	for x := range 8 {
		for y := range 4 {
			img.SetGray(x, y, color.Gray{uint8(10 * (x/2 + 4*(y/2)))}) // ten times the number of the patch
		}
	}
	path := filepath.Join(t.TempDir(), "in.png")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := png.Encode(f, img); err != nil {
		t.Fatal(err)
	}
	about := &task.Patches{Method: "embed", PixelsInput: "pixel_values", Embeddings: "embeddings", Patch: 2, Frames: 1,
		Merge: 2, MinPixels: 1, MaxPixels: 64, MaxPatches: 16,
		Std: [3]float64{1. / 255, 1. / 255, 1. / 255}}
	model := filepath.Join(t.TempDir(), "m.rlx")
	writeArtifact(
		t, model, about, tinymodel.Program(t, "graph embed\nsym N = 1..16\npixel_values = input : f32[N,12]\n"+
			"e = reduce_mean pixel_values {axes=[1],keep_dims=true} : f32[N,1]\nreturn embeddings=e\n", "cpu"))
	s := sessionOf(t, model, debugFlags{})
	run := func(path string) *runFlags {
		r := segmentRun(segmentFlags{image: path, mask: "best"}) // these flags include --image
		for _, u := range taskUses(&imageFlag{path: path}) {
			if u.name == task.KindPatches {
				r.tasks = append(r.tasks, u)
			}
		}
		return r
	}
	j, err := newJob(t.Context(), s, run(path))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.ready(t.Context(), nil, nil, j.methods()...); err != nil {
		t.Fatal(err)
	}
	out, err := j.run(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	got := tensor.View[float32](out["embeddings"].tensor.Data)
	for i, want := range []float32{0, 10, 40, 50, 20, 30, 60, 70} {
		if d := got[i] - want; d < -1e-3 || d > 1e-3 {
			t.Errorf("patch %d: %v; want %v", i, got[i], want)
		}
	}
	if grid := tensor.View[int64](out[gridOutput].tensor.Data); !slices.Equal(grid, []int64{1, 2, 4}) {
		t.Errorf("the grid is %v; want 1, 2, 4", grid)
	}
	strip := filepath.Join(t.TempDir(), "strip.png")
	g, err := os.Create(strip)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if err := png.Encode(g, image.NewGray(image.Rect(0, 0, 201, 1))); err != nil {
		t.Fatal(err)
	}
	_, err = newJob(t.Context(), s, run(strip))
	wantError(t, "a strip", err, code.ImagePatches, strip+": has 201 x 1 pixels")
	_, err = newJob(t.Context(), s, run(""))
	wantError(t, "nothing", err, diag.Usage, "give --image, or --method")
}
