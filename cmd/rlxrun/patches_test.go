package main

import (
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
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
	for _, image := range []bool{false, true} {
		testPatches(t, path, image)
	}
}

// testPatches embeds the image at path by the method that takes rows, or by the method that takes images.
func testPatches(t *testing.T, path string, takesImage bool) {
	about := &task.Patches{Method: "embed", PixelsInput: "pixel_values", Embeddings: "embeddings", Patch: 2, Frames: 1,
		Merge: 2, MinPixels: 1, MaxPixels: 64, MaxPatches: 16,
		Std: [3]float64{1. / 255, 1. / 255, 1. / 255}}
	model := filepath.Join(t.TempDir(), "m.rlx")
	programs := []*program.Program{tinymodel.Program(t, "graph embed\nsym N = 1..16\n"+
		"pixel_values = input : f32[N,12]\n"+
		"e = reduce_mean pixel_values {axes=[1],keep_dims=true} : f32[N,1]\nreturn embeddings=e\n", "cpu")}
	if takesImage {
		about.ImageMethod, about.ImageInput, about.MaxSide = "embed_image", "image", 2
		programs = append(programs, tinymodel.Program(t, "graph embed_image\nsym R = 1..2\nsym C = 1..2\n"+
			"image = input : f32[4*R,4*C,3]\nx = reshape image : f32[R,2,2,C,2,2,3]\n"+
			"y = transpose x {perm=[0,3,1,4,6,2,5]} : f32[R,C,2,2,3,2,2]\nz = reshape y : f32[4*R*C,12]\n"+
			"e = reduce_mean z {axes=[1],keep_dims=true} : f32[4*R*C,1]\nreturn embeddings=e\n", "cpu"))
	}
	writeArtifact(t, model, about, programs...)
	s := sessionOf(t, model, debugFlags{})
	run := func(path string) *runFlags {
		r := segmentRun(segmentFlags{maskFlags: maskFlags{image: path}, mask: "best"}) // these flags include --image
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
	if want := map[bool]string{false: "embed", true: "embed_image"}[takesImage]; j.methods()[0].Name != want {
		t.Errorf("the method is %s; want %s", j.methods()[0].Name, want)
	}
	if err := j.prepare(s, []sink{{offer: offer{name: "pixel_values"}}}); err != nil {
		t.Fatal(err)
	}
	out, err := j.run(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if takesImage {
		_, err := s.Run(t.Context(), rlx.Request{Method: "embed_image", Inputs: map[string]rlx.Tensor{
			"image": {DType: rlx.F32, Shape: []int{4, 6, 3}, Data: make([]byte, 4*6*3*4)}}})
		wantError(t, "a side that blocks do not divide", err, code.Input,
			"input image: is f32[4,6,3]; allowed is f32[4*R,4*C,3]")
	}
	if x := out["pixel_values"].tensor; !slices.Equal(x.Shape, []int{8, 12}) {
		t.Errorf("the patches have shape %v; want 8, 12", x.Shape)
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
