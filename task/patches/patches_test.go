package patches_test

import (
	"cmp"
	"errors"
	"image"
	"image/color"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/ir"
	_ "github.com/rlx-go/rlx/core/op" // registers the ops of the methods
	"github.com/rlx-go/rlx/task"
	"github.com/rlx-go/rlx/task/patches"
	"github.com/rlx-go/rlx/task/tasktest"
)

// published returns the description of Qwen3-VL.
func published() *patches.Task {
	half := [3]float64{0.5, 0.5, 0.5}
	return &patches.Task{Method: "patch_embed", PixelsInput: "pixel_values", Embeddings: "embeddings", Patch: 16, Frames: 2, Merge: 2,
		MinPixels: 1 << 16, MaxPixels: 1 << 24, MaxPatches: 1 << 16, Mean: half, Std: half}
}

func TestFields(t *testing.T) { tasktest.Fields(t, patches.Kind) }

// TestGrid compares grids with smart_resize in Transformers 5.23 (models/qwen2_vl), for images from one pixel to more than the
// largest area.
func TestGrid(t *testing.T) {
	for _, c := range [][4]int{ // width, height, rows, columns
		{1, 1, 16, 16}, {5, 3, 14, 22}, {15, 15, 16, 16}, {256, 256, 16, 16}, {257, 255, 16, 16}, {384, 303, 18, 24}, {240, 80, 10, 28}, {80, 48, 14, 22},
		{272, 304, 20, 16}, {48, 1000, 74, 4}, {1920, 1080, 68, 120}, {4000, 3000, 188, 250}, {5000, 5000, 256, 256}, {200, 1, 2, 228}, {12000, 60, 4, 750},
	} {
		rows, columns, err := published().Grid(c[0], c[1])
		if err != nil || rows != c[2] || columns != c[3] {
			t.Errorf("%d x %d: %d x %d patches (%v); want %d x %d", c[0], c[1], rows, columns, err, c[2], c[3])
		}
	}
	few := published()
	few.MaxPatches = 255
	for name, c := range map[string]struct {
		task *patches.Task
		w, h int
		text string
	}{
		"a strip":    {published(), 1, 201, "image: has 1 x 201 pixels; one side may be 200 times as long as the other"},
		"many":       {few, 256, 256, "which are 256 patches; the artifact allows 255"},
		"enlarged":   {few, 3, 3, "image: has 3 x 3 pixels, which are 256 patches"},
		"wide strip": {published(), 100000, 400, "one side"},
	} {
		if _, _, err := c.task.Grid(c.w, c.h); !errors.Is(err, code.Patches) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRows checks the place of each pixel in the rows: blocks, lines of patches in a block, channels, equal frames, lines of
// pixels.
func TestRows(t *testing.T) {
	task := published()
	task.Patch, task.Merge, task.Frames, task.MinPixels = 2, 2, 3, 1
	task.Mean, task.Std = [3]float64{}, [3]float64{1. / 255, 1. / 255, 1. / 255} // values do not change
	img := image.NewNRGBA(image.Rect(5, 7, 5+12, 7+8))
	for y := range 8 {
		for x := range 12 {
			img.SetNRGBA(5+x, 7+y, color.NRGBA{uint8(x), uint8(y), 200, 0})
		}
	}
	got, rows, columns, err := task.Rows(img)
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

// TestCheck checks that a task accepts only methods that fit.
func TestCheck(t *testing.T) {
	const graph = "graph patch_embed\nsym N = 1..65536\npixel_values = input : f32[N,1536]\ne = reduce_sum pixel_values {axes=[1],keep_dims=true} : f32[N,1]\nreturn embeddings=e\n"
	for name, c := range map[string]struct {
		from, to string
		change   func(*patches.Task)
		ok       bool
	}{
		"as it is":          {ok: true},
		"more patches":      {from: "65536", to: "65537", ok: true},
		"fewer patches":     {from: "65536", to: "65535"},
		"a block at least":  {from: "1..", to: "4..", ok: true},
		"more than a block": {from: "1..", to: "5.."},
		"another row":       {change: func(t *patches.Task) { t.Frames = 1 }},
		"another method":    {change: func(t *patches.Task) { t.Method = "embed" }},
		"another input":     {change: func(t *patches.Task) { t.PixelsInput = "x" }},
		"another output":    {change: func(t *patches.Task) { t.Embeddings = "x" }},
		"f16":               {from: "f32", to: "f16"},
		"one for all":       {from: "{axes=[1],keep_dims=true} : f32[N,1]", to: "{axes=[0],keep_dims=true} : f32[1,1536]"},
	} {
		g, err := ir.Parse(strings.ReplaceAll(graph, cmp.Or(c.from, "\x00"), c.to))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		m := task.Method{Name: g.Name, Syms: g.Syms}
		for _, n := range g.Inputs() {
			m.Inputs = append(m.Inputs, task.Value{Name: n.Name, Type: n.Type})
		}
		for _, o := range g.Outputs {
			m.Outputs = append(m.Outputs, task.Value{Name: o.Name, Type: o.Node.Type})
		}
		p := published()
		if c.change != nil {
			c.change(p)
		}
		if err := p.Check(task.Methods{m}); c.ok != (err == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestValidate checks that values are refused which would divide by zero or allocate without bound.
func TestValidate(t *testing.T) {
	if err := published().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*patches.Task){
		"method": func(t *patches.Task) { t.Method = "" }, "pixels_input": func(t *patches.Task) { t.PixelsInput = "" }, "embeddings": func(t *patches.Task) { t.Embeddings = "" },
		"patch": func(t *patches.Task) { t.Patch = 0 }, "frames": func(t *patches.Task) { t.Frames = 65 }, "merge": func(t *patches.Task) { t.Merge = 0 },
		"max_pixels": func(t *patches.Task) { t.MaxPixels = 1<<28 + 1 }, "min_pixels": func(t *patches.Task) { t.MinPixels = 1<<24 + 1 },
		"max_patches": func(t *patches.Task) { t.MaxPatches = 3 }, "mean": func(t *patches.Task) { t.Mean[1] = 1e7 }, "std": func(t *patches.Task) { t.Std[2] = 0 },
	} {
		x := published()
		change(x)
		if err := x.Validate(); !errors.Is(err, code.TaskSpec) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s := published().String(); !strings.Contains(s, "65536 to 16777216") {
		t.Errorf("%q does not say how small an image may be inside", s)
	}
}
