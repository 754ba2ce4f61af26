package patches

import (
	"errors"
	"image"
	"image/color"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/tensortest"
	"github.com/rlx-go/rlx/task"
)

// published returns the description of Qwen3-VL.
func published() *task.Patches {
	half := [3]float64{0.5, 0.5, 0.5}
	return &task.Patches{Method: "patch_embed", PixelsInput: "pixel_values", Embeddings: "embeddings", Patch: 16,
		Frames: 2, Merge: 2,
		MinPixels: 1 << 16, MaxPixels: 1 << 24, MaxPatches: 1 << 16, Mean: half, Std: half}
}

// TestGrid compares grids with smart_resize in Transformers 5.23 (models/qwen2_vl), for images from one pixel to more
// than the largest area.
func TestGrid(t *testing.T) {
	for _, c := range [][4]int{ // width, height, rows, columns
		{1, 1, 16, 16}, {5, 3, 14, 22}, {15, 15, 16, 16}, {256, 256, 16, 16}, {257, 255, 16, 16}, {384, 303, 18, 24},
		{240, 80, 10, 28}, {80, 48, 14, 22},
		{272, 304, 20, 16}, {48, 1000, 74, 4}, {1920, 1080, 68, 120}, {4000, 3000, 188, 250}, {5000, 5000, 256, 256},
		{200, 1, 2, 228}, {12000, 60, 4, 750},
	} {
		rows, columns, err := newPatcher(nil, published()).rule.Grid(c[0], c[1])
		if err != nil || rows != c[2] || columns != c[3] {
			t.Errorf("%d x %d: %d x %d patches (%v); want %d x %d", c[0], c[1], rows, columns, err, c[2], c[3])
		}
	}
	few := published()
	few.MaxPatches = 255
	for name, c := range map[string]struct {
		task *task.Patches
		w, h int
		text string
	}{
		"a strip": {published(), 1, 201,
			"image: has 1 x 201 pixels; one side may be 200 times as long as the other"},
		"many":       {few, 256, 256, "which are 256 patches; the artifact allows 255"},
		"enlarged":   {few, 3, 3, "image: has 3 x 3 pixels, which are 256 patches"},
		"wide strip": {published(), 100000, 400, "one side"},
	} {
		_, _, err := newPatcher(nil, c.task).rule.Grid(c.w, c.h)
		if !errors.Is(err, ErrShape) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRows checks the place of each pixel in the rows: blocks, lines of patches in a block, channels, equal frames,
// lines of pixels.
func TestRows(t *testing.T) {
	about := published()
	about.Patch, about.Merge, about.Frames, about.MinPixels = 2, 2, 3, 1
	about.Mean, about.Std = [3]float64{}, [3]float64{1. / 255, 1. / 255, 1. / 255} // values do not change
	img := image.NewNRGBA(image.Rect(5, 7, 5+12, 7+8))
	for y := range 8 {
		for x := range 12 {
			img.SetNRGBA(5+x, 7+y, color.NRGBA{uint8(x), uint8(y), 200, 0})
		}
	}
	got, rows, columns, err := newPatcher(nil, about).rule.Rows(img)
	if err != nil || rows != 4 || columns != 6 || len(got) != 24*3*3*4 {
		t.Fatalf("%d x %d patches, %d values (%v); want 4 x 6", rows, columns, len(got), err)
	}
	for i, v := range got {
		dx, dy, c, patch := i%2, i/2%2, i/12%3, i/36
		block, inside := patch/4, patch%4
		x, y := (block%3*2+inside%2)*2+dx, (block/3*2+inside/2)*2+dy
		if want := []float32{float32(x), float32(y), 200}[c]; v < want-1e-3 || v > want+1e-3 {
			t.Fatalf("value %d is %v; want %v", i, v, want)
		}
	}
}

// TestPublished compares rows with those of the published processor, bit by bit.
func TestPublished(t *testing.T) {
	about := published()
	about.MinPixels, about.MaxPixels = 1024, 65536
	const golden = "../testdata/goldens/qwen3vl_patch/golden.safetensors:"
	u8 := tensortest.Golden(t, golden+"image.u8")
	value := func(i int) uint8 {
		if u8.DType.IsFloat() {
			return uint8(u8.Floats[i])
		}
		return uint8(u8.Ints[i])
	}
	img := image.NewNRGBA(image.Rect(0, 0, 96, 64))
	for i := range 96 * 64 {
		img.SetNRGBA(i%96, i/96, color.NRGBA{value(i), value(i + 96*64), value(i + 2*96*64), 255})
	}
	got, rows, columns, err := newPatcher(nil, about).rule.Rows(img)
	if err != nil || rows != 4 || columns != 6 {
		t.Fatalf("%d x %d patches (%v); want 4 x 6", rows, columns, err)
	}
	want := tensortest.Golden(t, golden+"image.pixel_values")
	for i, v := range got {
		if v != float32(want.Floats[i]) {
			t.Fatalf("value %d is %v; want %v", i, v, want.Floats[i])
		}
	}
}

// TestRequest checks that an image goes to the method that takes its pixels, if there is one and it takes images that
// long, and to the method that takes rows otherwise. Both get the same pixels.
func TestRequest(t *testing.T) {
	about := published()
	about.MinPixels, about.MaxPixels = 1024, 65536
	about.ImageMethod, about.ImageInput, about.MaxSide = "embed_image", "image", 6
	p := newPatcher(nil, about)
	img := image.NewNRGBA(image.Rect(3, 5, 3+96, 5+64))
	for y := range 64 {
		for x := range 96 {
			img.SetNRGBA(3+x, 5+y, color.NRGBA{uint8(x), uint8(y), uint8(x * y), 255})
		}
	}
	r, grid, err := p.Request(img)
	if err != nil || r.Method != "embed_image" || grid != image.Pt(6, 4) || len(r.Inputs) != 1 {
		t.Fatalf("%+v, %v, %v; want embed_image and a grid of 6 by 4", r, grid, err)
	}
	pixels := r.Inputs["image"]
	if !slices.Equal(pixels.Shape, []int{64, 96, 3}) {
		t.Fatalf("shape %v; want 64, 96, 3", pixels.Shape)
	}
	for i, v := range tensor.View[float32](pixels.Data) {
		x, y := i/3%96, i/3/96
		if want := []uint8{uint8(x), uint8(y), uint8(x * y)}[i%3]; v != float32(want) {
			t.Fatalf("value %d is %v; want %d", i, v, want)
		}
	}
	about.MaxSide = 2
	r, grid, err = p.Request(img)
	if want, _, werr := p.Pixels(img); err != nil || werr != nil || r.Method != "patch_embed" ||
		grid != image.Pt(6, 4) || !slices.Equal(r.Inputs["pixel_values"].Data, want.Data) {
		t.Errorf("of 3 blocks, where 2 are allowed: %v, %v, %v; want the rows", r.Method, grid, err)
	}
	if _, _, err := p.Request(image.NewGray(image.Rect(0, 0, 1, 201))); !errors.Is(err, ErrShape) {
		t.Errorf("a strip: %v", err)
	}
}
